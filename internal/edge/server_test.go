package edge

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A pipes is an in-memory listener for [synctest] bubbles.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return address("pipe") }

// dial connects and sends text.
func (p *pipes) dial(text string) net.Conn {
	here, there := net.Pipe()
	p.conns <- there
	go io.WriteString(here, text) // until it is read or the connection is closed
	return here
}

// ask sends a request and returns the status and the body of the answer, and whether the
// connection will be closed.
func (p *pipes) ask(t *testing.T, text string) (status int, body string, closing bool) {
	t.Helper()
	conn := p.dial(text)
	defer conn.Close()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("%.60q: %v", text, err)
		return 0, "", true
	}
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%.60q: %v", text, err)
	}
	return resp.StatusCode, string(all), resp.Close
}

// inBubble runs a test against a server in a bubble.
func inBubble(t *testing.T, o Options, h http.HandlerFunc, test func(t *testing.T, p *pipes, s *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, p := New(h, o), &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		served := make(chan error)
		go func() { served <- s.Serve(p) }()
		test(t, p, s)
		s.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		<-time.After(time.Second) // net/http waits before it closes a connection
	})
}

// echo answers with the body.
func echo(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	w.Write(text)
}

// TestSlow runs hundreds of clients that send or read slowly. Each is cut off in time, and
// another client is served meanwhile.
func TestSlow(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: x\r\n"
	tests := []struct {
		name, sent string
		within     time.Duration
	}{
		{"nothing", "", 5 * time.Second},
		{"half a header", post + "X: ", 5 * time.Second},
		{"one byte of a body", post + "Content-Length: 100\r\n\r\n{", 31 * time.Second},
		{"chunks without end", post + "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", 31 * time.Second},
		{"an answer that is not read", post + "Content-Length: 1\r\nX-Large: 1\r\n\r\n{", 41 * time.Second},
		{"idle", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 61 * time.Second},
	}
	large := func(w http.ResponseWriter, r *http.Request) {
		echo(w, r)
		if r.Header.Get("X-Large") != "" {
			w.Write(make([]byte, 1<<20))
		}
	}
	for _, test := range tests {
		inBubble(t, Options{}, large, func(t *testing.T, p *pipes, s *Server) {
			start := time.Now()
			for range 300 {
				conn := p.dial(test.sent)
				defer conn.Close()
				if !strings.Contains(test.name, "not read") {
					go io.Copy(io.Discard, conn)
				}
			}
			synctest.Wait()
			if n := s.Connections(); n != 300 {
				t.Errorf("%s: %d connections are open, want 300", test.name, n)
			}
			if status, _, _ := p.ask(t, post+"Content-Length: 1\r\nConnection: close\r\n\r\n1"); status != 200 || time.Since(start) > 0 {
				t.Errorf("%s: another client is answered %d after %v", test.name, status, time.Since(start))
			}
			<-time.After(test.within - 2*time.Second)
			synctest.Wait()
			if n := s.Connections(); n != 300 {
				t.Errorf("%s: %d connections are open after %v", test.name, n, test.within-2*time.Second)
			}
			<-time.After(2 * time.Second)
			synctest.Wait()
			if n := s.Connections(); n != 0 {
				t.Errorf("%s: %d connections are open after %v", test.name, n, test.within)
			}
		})
	}
}

// TestHold has answers that take longer than the server's timeouts, and more waiting requests
// than are allowed.
func TestHold(t *testing.T) {
	wait := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/now" {
			return
		}
		release, ok := Hold(w, r, 5*time.Minute)
		if !ok {
			return
		}
		defer release()
		select {
		case <-time.After(5 * time.Minute):
			io.WriteString(w, "late")
		case <-r.Context().Done():
		}
	}
	const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	inBubble(t, Options{}, wait, func(t *testing.T, p *pipes, s *Server) {
		for round := range 2 { // the second round reuses the places of the first
			start := time.Now()
			var waiting sync.WaitGroup
			for range 64 {
				waiting.Go(func() {
					if status, body, _ := p.ask(t, get); status != 200 || body != "late" || time.Since(start) != 5*time.Minute {
						t.Errorf("round %d: %d %q after %v", round, status, body, time.Since(start))
					}
				})
			}
			synctest.Wait()
			for range 2 {
				if status, body, _ := p.ask(t, get); status != 503 || time.Since(start) > 0 {
					t.Errorf("round %d: one too many is answered %d %s after %v", round, status, body, time.Since(start))
				}
				if status, _, _ := p.ask(t, "GET /now HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 || time.Since(start) > 0 {
					t.Errorf("round %d: who does not wait is answered %d after %v", round, status, time.Since(start))
				}
			}
			waiting.Wait()
		}
		var gone []net.Conn
		for range 64 {
			gone = append(gone, p.dial(get))
		}
		synctest.Wait()
		for _, conn := range gone {
			conn.Close()
		}
		synctest.Wait()
		if n := len(s.waiting); n != 0 {
			t.Errorf("%d requests wait whose clients are gone", n)
		}
	})
}

// TestBodies sends bodies that are too large, and bodies of requests that should have none.
func TestBodies(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	form := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, r.FormValue("wait")) // parses the body
			return
		}
		echo(w, r)
	}
	const multipart = "Content-Type: multipart/form-data; boundary=B\r\nContent-Length: 314572800\r\n\r\n--B\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"
	tests := []struct {
		name, sent, answer string
		status             int
		closing            bool
	}{
		{"as large as may be", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n1234", "1234", 200, false},
		{"too large", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "", 413, true},
		{"too large in chunks", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n", "", 413, true},
		{"a form in a GET", "GET /?wait=1s HTTP/1.1\r\nHost: x\r\n" + multipart, "1s", 200, true},
		{"chunks in a GET", "GET /?wait=1s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n", "1s", 200, true},
		{"a large header", "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 21<<10) + "\r\n\r\n", "", 431, true},
	}
	for _, test := range tests {
		inBubble(t, Options{Body: 4}, form, func(t *testing.T, p *pipes, s *Server) {
			start := time.Now()
			conn := p.dial(test.sent)
			defer conn.Close()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			took := time.Since(start)
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			text, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != test.status || resp.Close != test.closing || test.answer != "" && string(text) != test.answer {
				t.Errorf("%s: %d %q, closing %t; want %d %q, %t", test.name, resp.StatusCode, text, resp.Close, test.status, test.answer, test.closing)
			}
			if took > 0 {
				t.Errorf("%s: answered after %v, when somebody had waited for the body", test.name, took)
			}
			if !test.closing {
				return
			}
			sent := 0
			for chunk := make([]byte, 4096); err == nil; sent += len(chunk) { // as long as the server reads
				conn.SetWriteDeadline(time.Now().Add(time.Minute))
				_, err = conn.Write(chunk)
			}
			if sent > 320<<10 {
				t.Errorf("%s: %d bytes were read after the answer", test.name, sent)
			}
		})
	}
	if files, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(files) > 0 {
		t.Errorf("files were written: %v %v", files, err)
	}
}
