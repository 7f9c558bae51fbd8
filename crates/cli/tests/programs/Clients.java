import java.io.InputStream;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.util.stream.Stream;

/** Fetches URI with a plain socket, with the blocking client and with ten requests of the asynchronous one; prints the lengths. */
public class Clients {
    public static void main(String[] args) throws Exception {
        URI uri = URI.create(args[0]);
        try (Socket socket = new Socket(uri.getHost(), uri.getPort())) {
            String request = "GET " + uri.getPath() + " HTTP/1.0\r\n\r\n";
            socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
            InputStream in = socket.getInputStream();
            String answer = new String(in.readAllBytes(), StandardCharsets.ISO_8859_1);
            System.out.println("socket " + answer.substring(answer.indexOf("\r\n\r\n") + 4).length()
                    + " from " + socket.getInetAddress().getHostAddress() + ":" + socket.getPort());
        }
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        HttpRequest request = HttpRequest.newBuilder(uri).build();
        System.out.println("blocking " + client.send(request, BodyHandlers.ofByteArray()).body().length);
        int sum = Stream.generate(() -> client.sendAsync(request, BodyHandlers.ofByteArray()))
                .limit(10).toList().stream().mapToInt(one -> one.join().body().length).sum();
        System.out.println("asynchronous " + sum);
        try (Socket none = new Socket(uri.getHost(), 9)) {
            System.out.println("connected to nobody");
        } catch (java.net.ConnectException refused) {
            System.out.println("refused");
        }
    }
}
