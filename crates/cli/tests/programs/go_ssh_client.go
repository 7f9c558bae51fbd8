// A client of golang.org/x/crypto/ssh, with files by github.com/pkg/sftp.
// Arguments: address, user, file with a private key, then `exec COMMAND` (with the standard streams and the status of the
// command), `put HERE THERE` or `get THERE HERE`.
package main

import (
	"errors"
	"io"
	"log"
	"os"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

func main() {
	pem, err := os.ReadFile(os.Args[3])
	check(err)
	key, err := ssh.ParsePrivateKey(pem)
	check(err)
	config := &ssh.ClientConfig{
		User:            os.Args[2],
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	}
	client, err := ssh.Dial("tcp", os.Args[1], config)
	check(err)
	if os.Args[4] == "exec" {
		run(client, os.Args[5])
		return
	}
	files, err := sftp.NewClient(client)
	check(err)
	if os.Args[4] == "put" {
		from, err := os.Open(os.Args[5])
		check(err)
		to, err := files.Create(os.Args[6])
		check(err)
		copied(to, from)
		return
	}
	from, err := files.Open(os.Args[5])
	check(err)
	to, err := os.Create(os.Args[6])
	check(err)
	copied(to, from)
}

func run(client *ssh.Client, command string) {
	session, err := client.NewSession()
	check(err)
	session.Stdin, session.Stdout, session.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = session.Run(command)
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitStatus())
	}
	check(err)
}

func copied(to io.WriteCloser, from io.Reader) {
	_, err := io.Copy(to, from)
	check(err)
	check(to.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
