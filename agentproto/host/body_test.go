package host

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// TestSlowBodiesOfOneServer checks that slow bodies of one tool server exhaust only that server's memory for bodies
// (threat 5). A message that waits too long for memory is deferred.
func TestSlowBodiesOfOneServer(t *testing.T) {
	for name, length := range map[string]int{"large": 8 << 20, "many": 1 << 10} {
		inWorld(t, func(t *testing.T, w *world) {
			other := w.tool("other.test", "other")
			w.opts.Toolsets = []string{other.base}
			_, k, url := w.pending()
			var slow sync.WaitGroup
			for range 40 {
				conn, err := w.net.dial(t.Context(), "", "runtime.test:80")
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: runtime.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", strings.TrimPrefix(url, "http://runtime.test"), length)
				slow.Go(func() { io.Copy(io.Discard, conn); conn.Close() }) // and never sends the body
			}
			synctest.Wait()
			theirs, err := w.rt.Call(t.Context(), Request{GroupID: "h", ID: "1", Operation: "other"})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if status := w.post(other.callback(), result(theirs, "ok")); status != 200 || w.text(theirs) != "ok" || time.Since(start) > 0 {
				t.Errorf("%s: another server's result: status %d after %v", name, status, time.Since(start))
			}
			if status := w.post(url, result(k, "ok")); status != 503 || time.Since(start) != 5*time.Second {
				t.Errorf("%s: the same server's result: status %d after %v, want 503 after 5 s", name, status, time.Since(start))
			}
			slow.Wait() // the server cuts them off when the time for a body is over
			if status := w.post(url, result(k, "ok")); status != 200 || w.text(k) != "ok" {
				t.Errorf("%s: the result later: status %d", name, status)
			}
			if used := w.rt.bodies.Used(); used != 0 {
				t.Errorf("%s: %d bytes are reserved for nothing", name, used)
			}
		})
	}
}

// TestManyLargeResults checks that many large results at once take turns for the memory for bodies, with a length and
// without. All are accepted.
func TestManyLargeResults(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds.Bodies = 8 << 20
		w.opts.Bounds.Rates = Rates{Session: Rate{Burst: 1 << 30}, Toolset: Rate{Burst: 1 << 30}, Process: Rate{Burst: 1 << 30}}
		tool := w.tool("tool.test")
		w.start(tool.base)
		var all sync.WaitGroup
		for i := range 100 {
			k := w.call(fmt.Sprint("g", i), "1")
			url := tool.callback()
			all.Go(func() {
				for attempt := 0; ; attempt++ {
					body := io.Reader(strings.NewReader(result(k, strings.Repeat("x", 1<<20-200))))
					if i%2 == 1 {
						body = struct{ io.Reader }{body}
					}
					status, _ := w.send(http.MethodPost, url, body, "Content-Type", "application/json")
					if status == 200 {
						return
					}
					if status != 503 || attempt == 20 {
						t.Errorf("result %d was answered %d", i, status)
						return
					}
					<-time.After(time.Second)
				}
			})
		}
		done := make(chan struct{})
		go func() { all.Wait(); close(done) }()
		for over := false; !over; {
			select {
			case <-done:
				over = true
			case <-time.After(time.Millisecond):
			}
			if used := w.rt.bodies.Used(); used > 8<<20 || over && used != 0 {
				t.Fatalf("%d bytes are reserved", used)
			}
		}
		for i := range 100 {
			if text := w.text(agentproto.CallKey{GroupID: fmt.Sprint("g", i), ID: "1"}); len(text) != 1<<20-200 {
				t.Errorf("result %d has %d bytes", i, len(text))
			}
		}
	})
}
