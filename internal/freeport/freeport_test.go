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
