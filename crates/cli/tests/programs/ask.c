// One question over UDP, as a static program asks it: ask ADDRESS PORT
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **given)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	char answer[100];
	int program = socket(AF_INET, SOCK_DGRAM, 0);
	if (count != 3 || program < 0)
		return 2;
	to.sin_port = htons(atoi(given[2]));
	inet_pton(AF_INET, given[1], &to.sin_addr);
	alarm(10);
	if (sendto(program, "static", 6, 0, (struct sockaddr *)&to, sizeof(to)) != 6)
		return 3;
	printf("%.*s\n", (int)recv(program, answer, sizeof(answer), 0), answer);
	return 0;
}
