// Fetches ADDRESS PORT PATH by HTTP and prints the length of the content.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **words)
{
	static char answer[1 << 20];
	struct sockaddr_in to = { .sin_family = AF_INET };
	size_t length = 0;
	ssize_t got;
	int s = socket(AF_INET, SOCK_STREAM, 0);
	if (count != 4 || inet_pton(AF_INET, words[1], &to.sin_addr) != 1)
		return 2;
	to.sin_port = htons(atoi(words[2]));
	if (connect(s, (void *)&to, sizeof(to)))
		return perror("connect"), 1;
	dprintf(s, "GET %s HTTP/1.0\r\n\r\n", words[3]);
	while ((got = read(s, answer + length, sizeof(answer) - 1 - length)) > 0)
		length += got;
	char *content = strstr(answer, "\r\n\r\n");
	if (!content)
		return 3;
	printf("%ld\n", (long)(answer + length - (content + 4)));
	return 0;
}
