package chaos

import (
	"net"
	"sync"
	"testing"
)

// A proxy is the network between one process and the servers. A cut is silent and stops
// both directions: connections stay open, new ones get no answer, and data that was in
// transit arrives late after mend.
type proxy struct {
	urls []string

	mu   sync.Mutex
	open chan struct{} // closed while the network is connected
}

func newProxy(t testing.TB, s *servers) *proxy {
	t.Helper()
	p := &proxy{open: make(chan struct{})}
	close(p.open)
	for _, nd := range s.Nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		p.urls = append(p.urls, "nats://"+l.Addr().String())
		go p.serve(l, nd.Address)
	}
	t.Cleanup(p.mend)
	return p
}

func (p *proxy) serve(l net.Listener, target string) {
	for {
		near, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer near.Close()
			p.wait()
			far, err := net.Dial("tcp", target)
			if err != nil {
				return
			}
			defer far.Close()
			done := make(chan struct{}, 2)
			carry := func(to, from net.Conn) {
				p.carry(to, from)
				done <- struct{}{}
			}
			go carry(far, near)
			go carry(near, far)
			<-done
		}()
	}
}

// carry forwards bytes while the network is connected.
func (p *proxy) carry(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.wait()
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) wait() {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	<-open
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}
