package host

import (
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestW09ManyIdleConnections checks that ten thousand idle connections from one address
// do not block others, and that none outlives the timeouts.
func TestW09ManyIdleConnections(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, url := w.pending()
		start := time.Now()
		open := make(chan net.Conn, 10_000)
		closed := make(chan time.Duration, cap(open))
		for i := range cap(open) {
			conn, err := w.net.dial(t.Context(), "", "runtime.test:80")
			if err != nil {
				t.Fatal(err)
			}
			open <- conn
			go func() {
				if i%2 == 0 {
					fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: runtime.test\r\n\r\n")
				}
				io.Copy(io.Discard, conn)
				closed <- time.Since(start)
			}()
		}
		synctest.Wait()
		if n := w.rt.endpoint.Connections(); n > 4096 {
			t.Errorf("%d connections are open, want at most 4096", n)
		}
		if status := w.post(url, result(key, "ok")); status != 200 || time.Since(start) > 0 {
			t.Errorf("a result: status %d after %v", status, time.Since(start))
		}
		for range cap(open) {
			if d := <-closed; d > 60*time.Second {
				t.Errorf("a connection was closed after %v", d)
			}
			(<-open).Close()
		}
	})
}
