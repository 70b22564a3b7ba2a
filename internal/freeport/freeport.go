// Package freeport finds addresses for servers that are processes of their own and are restarted at
// the same address.
package freeport

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
)

// The ports are below those that systems use for outgoing connections, so no outgoing connection
// takes one while its server is down.
const lowest, highest = 10_000, 32_000

// Ports are in blocks. A process that has a block keeps the UDP port with the number of its first one as
// long as it lives, so that no other process is given a port of that block, whose server may just be
// down. It is UDP because nobody can connect to that.
const (
	blockSize = 100
	most      = 10 // blocks of a process, which begins again with its first one
)

// given is what this process has.
var given = new(ports)

type ports struct {
	mu     sync.Mutex
	blocks []net.PacketConn // by which it has them
	tried  int              // blocks, among them those of other processes
	next   int              // index of the next port among those of all blocks
}

// port returns the next port that may be free.
func (p *ports) port() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	const each = blockSize - 1 // the first one is not given
	if p.next == each*len(p.blocks) {
		if len(p.blocks) == most || !p.claim() {
			p.next = 0
		}
		if len(p.blocks) == 0 {
			return 0, fmt.Errorf("other processes have all ports from %d to %d at 127.0.0.1", lowest, highest-1)
		}
	}
	base := p.blocks[p.next/each].LocalAddr().(*net.UDPAddr).Port
	port := base + 1 + p.next%each
	p.next++
	return port, nil
}

// claim gets another block, if there is one. It begins to look at a place that depends on the process.
func (p *ports) claim() bool {
	const all = (highest - lowest) / blockSize
	for range all {
		first := lowest + (os.Getpid()+p.tried)%all*blockSize
		p.tried++
		if c, err := net.ListenPacket("udp", loopback(first)); err == nil {
			p.blocks = append(p.blocks, c)
			return true
		}
	}
	return false
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Addresses returns n loopback addresses, host and port, at which nothing listens. A process receives
// no port that another process has received and that lives, and none twice within 990 ports unless other
// processes have the rest. It may be called concurrently.
func Addresses(n int) (all []string, err error) {
	for range most * blockSize {
		if len(all) == n {
			return all, nil
		}
		port, err := given.port()
		if err != nil {
			return nil, err
		}
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue // somebody else listens there
		}
		l.Close()
		all = append(all, loopback(port))
	}
	if len(all) == n {
		return all, nil
	}
	return nil, fmt.Errorf("%d of the ports that this process has are free at 127.0.0.1, and %d are wanted", len(all), n)
}

// Address returns one address; see [Addresses].
func Address() (string, error) {
	all, err := Addresses(1)
	if err != nil {
		return "", err
	}
	return all[0], nil
}
