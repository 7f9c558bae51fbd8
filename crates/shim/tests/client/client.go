// A client without any C library: twenty requests at once on connections of their own, and one
// that must be refused.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

func main() {
	var good atomic.Int32
	var group sync.WaitGroup
	for range 20 {
		group.Add(1)
		go func() {
			defer group.Done()
			client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			answer, err := client.Get(os.Args[1])
			if err != nil {
				fmt.Println(err)
				return
			}
			body, err := io.ReadAll(answer.Body)
			if err == nil && len(body) == 5000 {
				good.Add(1)
			}
		}()
	}
	group.Wait()
	fmt.Println(good.Load(), "of 20")
	_, err := http.Get(os.Args[2])
	fmt.Println("refused:", errors.Is(err, syscall.ECONNREFUSED))
}
