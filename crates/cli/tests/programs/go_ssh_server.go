// An SSH server of golang.org/x/crypto/ssh: commands, and files by github.com/pkg/sftp, for anybody.
// Arguments: port, file with a host key.
package main

import (
	"errors"
	"io"
	"log"
	"net"
	"os"
	"os/exec"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

func main() {
	pem, err := os.ReadFile(os.Args[2])
	check(err)
	key, err := ssh.ParsePrivateKey(pem)
	check(err)
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil },
	}
	config.AddHostKey(key)
	listener, err := net.Listen("tcp4", ":"+os.Args[1])
	check(err)
	for {
		stream, err := listener.Accept()
		check(err)
		go serve(stream, config)
	}
}

func serve(stream net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(stream, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for opened := range channels {
		channel, requests, err := opened.Accept()
		check(err)
		go session(channel, requests)
	}
}

func session(channel ssh.Channel, requests <-chan *ssh.Request) {
	for request := range requests {
		isKnown := request.Type == "exec" || request.Type == "subsystem"
		request.Reply(isKnown, nil)
		if isKnown {
			go run(channel, request.Type, string(request.Payload[4:]))
		}
	}
}

func run(channel ssh.Channel, kind, what string) {
	defer channel.Close()
	if kind == "subsystem" {
		server, err := sftp.NewServer(channel)
		check(err)
		server.Serve()
		return
	}
	command := exec.Command("sh", "-c", what)
	command.Stdout, command.Stderr = channel, channel.Stderr()
	input, err := command.StdinPipe()
	check(err)
	go func() {
		io.Copy(input, channel)
		input.Close()
	}()
	status := byte(0)
	var exit *exec.ExitError
	if err := command.Run(); errors.As(err, &exit) {
		status = byte(exit.ExitCode())
	}
	channel.SendRequest("exit-status", false, []byte{0, 0, 0, status})
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
