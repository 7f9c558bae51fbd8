// A server that tells each client the address that it has seen.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
)

func main() {
	listener, err := net.Listen("tcp", ":"+os.Args[1])
	if err != nil {
		panic(err)
	}
	tell := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.RemoteAddr) }
	http.Serve(listener, http.HandlerFunc(tell))
}
