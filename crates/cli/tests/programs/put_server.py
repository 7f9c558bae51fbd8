"""Answers PUT with the SHA-256 of what was sent."""
import hashlib
import http.server
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        left, digest = int(self.headers["Content-Length"]), hashlib.sha256()
        while left > 0:
            piece = self.rfile.read(min(left, 65536))
            if not piece:
                return
            digest.update(piece)
            left -= len(piece)
        self.send_response(200)
        self.send_header("Content-Length", "64")
        self.end_headers()
        self.wfile.write(digest.hexdigest().encode())

    def log_message(self, *unused):
        pass


http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
