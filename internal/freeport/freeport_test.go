package freeport

import (
	"net"
	"sync"
	"testing"
)

// TestAddresses asks for addresses from many goroutines. It fails if an address is given twice or
// is in use.
func TestAddresses(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				all, err := Addresses(5)
				if err != nil || len(all) != 5 {
					t.Errorf("%v, %v", all, err)
					return
				}
				mu.Lock()
				for _, at := range all {
					if seen[at] {
						t.Errorf("%s is given twice", at)
					}
					seen[at] = true
				}
				mu.Unlock()
				l, err := net.Listen("tcp", all[4])
				if err != nil {
					t.Error(err)
					return
				}
				l.Close()
			}
		})
	}
	wg.Wait()
	if at, err := Address(); err != nil || seen[at] {
		t.Errorf("%s, %v", at, err)
	}
}

// TestProcesses asks for more addresses than a process has at once, beside another process. It fails if that one is given one
// of them, whose server may just be down.
func TestProcesses(t *testing.T) {
	one, other := new(ports), new(ports)
	defer one.end()
	defer other.end()
	seen := map[int]*ports{}
	for i := range 3 * most * blockSize {
		for _, p := range []*ports{one, other} {
			port, err := p.port()
			if err != nil {
				t.Fatal(err)
			}
			if seen[port] != nil && seen[port] != p {
				t.Fatalf("port %d is given to both", port)
			}
			if i < most*(blockSize-1) && seen[port] != nil {
				t.Fatalf("port %d is given again", port)
			}
			seen[port] = p
		}
	}
}

// end gives back all blocks.
func (p *ports) end() {
	for _, c := range p.blocks {
		c.Close()
	}
}
