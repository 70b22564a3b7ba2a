// Package freeport finds addresses for servers that are processes of their own and are restarted at
// the same address.
package freeport

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

// The ports are below those that systems use for outgoing connections, so no outgoing connection
// takes one while its server is down.
const lowest, highest = 10_000, 32_000

// given counts the ports that were tried, starting at a number that depends on the process: two
// processes that look at the same time rarely find the same port.
var given = countingFrom(uint32(os.Getpid()) * 211)

func countingFrom(n uint32) *atomic.Uint32 {
	c := new(atomic.Uint32)
	c.Store(n)
	return c
}

// Addresses returns n loopback addresses, host and port, at which nothing listens. A process receives
// no port twice within 22,000 ports. It may be called concurrently.
func Addresses(n int) (all []string, err error) {
	for range highest - lowest {
		if len(all) == n {
			return all, nil
		}
		port := lowest + int(given.Add(1)%(highest-lowest))
		at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		l, failed := net.Listen("tcp", at)
		if failed != nil {
			err = failed
			continue
		}
		l.Close()
		all = append(all, at)
	}
	if len(all) == n {
		return all, nil
	}
	return nil, fmt.Errorf("no port of %d to %d is free at 127.0.0.1: %w", lowest, highest-1, err)
}

// Address returns one address; see [Addresses].
func Address() (string, error) {
	all, err := Addresses(1)
	if err != nil {
		return "", err
	}
	return all[0], nil
}
