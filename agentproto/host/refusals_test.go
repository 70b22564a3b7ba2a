package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/migration"
)

// TestThreat16_HostBehindProxy checks that with a PublicURL a request may name any host,
// because many proxies change it (threat 16). The capability protects the endpoint.
func TestThreat16_HostBehindProxy(t *testing.T) {
	for _, public := range []string{"https://agents.example", "https://agents.example/below", "http://127.0.0.1:4000"} {
		inWorld(t, func(t *testing.T, w *world) {
			tool := w.tool("tool.test")
			rt, err := Start(t.Context(), Options{
				Toolsets: []string{tool.base}, Listener: w.net.listen("127.0.0.1:4000"), PublicURL: public,
				DialContext: w.net.dial, Surface: w.user, Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			w.rt = rt
			defer rt.Stop(context.Background())
			for i, host := range []string{"backend", "agents.example:8443", "evil.test", "127.0.0.1:4000"} {
				key := w.call("g", fmt.Sprint(i))
				_, path, _ := strings.Cut(tool.callback(), capability.Path)
				if status, _ := w.raw("127.0.0.1:4000", "POST "+capability.Path+path+" HTTP/1.1\r\nHost: "+host+"\r\nOrigin: https://agents.example\r\n", result(key, host)); status != 200 {
					t.Errorf("Host %s: status %d", host, status)
				}
				if got := w.text(key); got != host {
					t.Errorf("Host %s: result %q", host, got)
				}
			}
		})
	}
}

// raw sends a request that begins with the given lines and returns the status and body of the
// response.
func (w *world) raw(address, lines, body string) (int, string) {
	w.t.Helper()
	conn, err := w.net.dial(w.t.Context(), "", address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	go fmt.Fprintf(conn, "%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", lines, len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer)
}

// TestThreat16_NoHost checks that an HTTP/1.0 message, which need not name a host, is
// accepted, and one from a web page is not.
func TestThreat16_NoHost(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		rt, err := Start(t.Context(), Options{
			Toolsets: []string{tool.base}, Listener: w.net.listen("127.0.0.1:4000"), DialContext: w.net.dial, Surface: w.user,
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		w.rt = rt
		defer rt.Stop(context.Background())
		key := w.call("g", "1")
		path := strings.TrimPrefix(tool.callback(), "http://127.0.0.1:4000")
		for _, tt := range []struct {
			lines string
			want  int
		}{
			{"POST " + path + " HTTP/1.0\r\nOrigin: http://evil.test\r\n", 403},
			{"POST " + path + " HTTP/1.0\r\nHost: evil.test\r\n", 421},
			{"POST " + migration.Path + " HTTP/1.0\r\n", 421},
			{"GET " + path + " HTTP/1.0\r\n", 405},
			{"POST " + path + " HTTP/1.0\r\n", 200},
		} {
			if status, body := w.raw("127.0.0.1:4000", tt.lines, result(key, "ok")); status != tt.want {
				t.Errorf("%q: status %d %s, want %d", tt.lines, status, body, tt.want)
			}
		}
		if got := w.text(key); got != "ok" {
			t.Errorf("result %q", got)
		}
	})
}

// TestRefusalsAreLogged checks that refused messages with a genuine URL are logged at WARN,
// in a few lines however many there are, and without the URL. Messages with a forged URL are
// not logged.
func TestRefusalsAreLogged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		rt, err := Start(t.Context(), Options{
			Toolsets: []string{tool.base}, Listener: w.net.listen("127.0.0.1:4000"), DialContext: w.net.dial, Surface: w.user,
			Logger: slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		if err != nil {
			t.Fatal(err)
		}
		w.rt = rt
		defer rt.Stop(context.Background())
		key := w.call("g", "1")
		url := tool.callback()
		path := strings.TrimPrefix(url, "http://127.0.0.1:4000")
		secret := path[strings.LastIndex(path, "/")+1:]
		lines := func(status int) (n int) {
			for line := range strings.Lines(w.logs.String()) {
				if strings.Contains(line, "level=WARN") && strings.Contains(line, fmt.Sprint("status=", status)) {
					n++
				}
			}
			return n
		}
		for range 50 {
			w.raw("127.0.0.1:4000", "POST "+path+" HTTP/1.1\r\nHost: backend\r\n", result(key, "ok"))                        // 421
			w.raw("127.0.0.1:4000", "POST "+path+" HTTP/1.1\r\nHost: localhost:4000\r\nOrigin: null\r\n", result(key, "ok")) // 403
			w.raw("127.0.0.1:4000", "GET "+path+" HTTP/1.1\r\nHost: localhost:4000\r\n", "")                                 // 405
			w.raw("127.0.0.1:4000", "POST "+capability.Path+"a/"+secret+" HTTP/1.1\r\nHost: backend\r\n", result(key, "ok")) // no capability
		}
		for _, status := range []int{421, 403, 405} {
			if n := lines(status); n != 1 {
				t.Errorf("%d lines about %d, want 1:\n%s", n, status, w.logs.String())
			}
		}
		w.pass(time.Minute)
		w.raw("127.0.0.1:4000", "POST "+path+" HTTP/1.1\r\nHost: backend\r\n", result(key, "ok"))
		if n := lines(421); n != 2 || !strings.Contains(w.logs.String(), "others=49") {
			t.Errorf("%d lines about 421 a minute later, want 2 and the number of the others", n)
		}
		if strings.Contains(w.logs.String(), secret) {
			t.Error("the capability is in the log")
		}
		if st := w.stats(); st.Results != 0 || st.Malformed != 0 {
			t.Errorf("stats %+v", st.Counts)
		}
		if status := w.post(url, result(key, "ok")); status != 200 || w.text(key) != "ok" {
			t.Errorf("the genuine result: status %d", status)
		}
	})
}

// TestW07Types checks that a message without a Content-Type is accepted, because its URL is
// enough to identify the tool. One that declares another type is refused (W07).
func TestW07Types(t *testing.T) {
	for _, tt := range []struct {
		header []string
		want   int
	}{
		{nil, 200},
		{[]string{"Content-Type", ""}, 200},
		{[]string{"Content-Type", "application/json", "Content-Encoding", "identity"}, 200},
		{[]string{"Content-Encoding", "Identity, identity"}, 200},
		{[]string{"Content-Encoding", ""}, 200},
		{[]string{"Content-Type", "text/plain"}, 415},
		{[]string{"Content-Type", "application/json, text/plain"}, 415},
		{[]string{"Content-Type", "application/problem+json"}, 415},
		{[]string{"Content-Type", ";"}, 415},
		{[]string{"Content-Encoding", "gzip"}, 415},
		{[]string{"Content-Encoding", "identity, gzip"}, 415},
	} {
		inWorld(t, func(t *testing.T, w *world) {
			_, key, url := w.pending()
			status, _ := w.send(http.MethodPost, url, strings.NewReader(result(key, "ok")), tt.header...)
			if status != tt.want {
				t.Errorf("%q: status %d, want %d", tt.header, status, tt.want)
			}
			if got := w.text(key); (got == "ok") != (tt.want == 200) || tt.want != 200 && !strings.Contains(got, "http://tool.test: callback: Content-") {
				t.Errorf("%q: result %q", tt.header, got)
			}
		})
	}
}

// TestEmptyContent checks that an empty content does not replace the text (doc/protocol.md
// §5.2).
func TestEmptyContent(t *testing.T) {
	for _, tt := range []struct {
		members, want string
		status        int
	}{
		{`"content":[],"text":"said"`, "said", 200},
		{`"content":null,"text":"said"`, "said", 200},
		{`"content":[],"text":""`, "", 200},
		{`"content":[],"text":"Error: no"`, "Error: no", 200},
		{`"content":[]`, "(no output)", 200},
		{`"content":[],"text":null`, "(no output)", 200},
		{`"content":null,"text":null`, "has neither text nor content", 400},
		{`"content":null`, "has neither text nor content", 400},
		{`"subscription":false`, "has neither text nor content", 400},
	} {
		inWorld(t, func(t *testing.T, w *world) {
			_, key, url := w.pending()
			status := w.post(url, `{"type":"tool_result","group_id":"g","id":"1",`+tt.members+`}`)
			r, err := w.rt.Await(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			got := r.Result.String()
			if status != tt.status || got != tt.want && (tt.status == 200 || !strings.Contains(got, tt.want)) || r.Result.IsError() != strings.HasPrefix(got, "Error: ") {
				t.Errorf("%s: status %d, result %q, error %v; want %d, %q", tt.members, status, got, r.Result.IsError(), tt.status, tt.want)
			}
		})
	}
}

// TestW08AnswerIsRead checks that a client that reads the response only after it has sent
// everything reads 413, and that the call is resolved (W08). So does a client that reads at
// once.
func TestW08AnswerIsRead(t *testing.T) {
	tool := echoServer(t, "unused")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	late := lateServer(t)
	rt, err := Start(t.Context(), Options{
		Toolsets: []string{tool.URL, late.URL}, Listener: listener, Surface: &user{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stopNow(t, rt)
	for i := range 20 {
		key, err := rt.Call(t.Context(), Request{GroupID: "g", ID: fmt.Sprint(i), Operation: "late"})
		if err != nil {
			t.Fatal(err)
		}
		inv := <-late.invocations
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		const length = 20 << 20
		header := fmt.Sprintf("Content-Length: %d\r\n", length)
		if i%2 == 1 {
			header = "Transfer-Encoding: chunked\r\n"
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n%s\r\n", strings.TrimPrefix(inv.CallbackURL, rt.PublicURL()), listener.Addr(), header)
		chunk := strings.Repeat(" ", 1<<20)
		for range length >> 20 {
			if i%2 == 1 {
				_, err = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(chunk), chunk)
			} else {
				_, err = io.WriteString(conn, chunk)
			}
			if err != nil {
				t.Fatalf("%d: sending: %v", i, err)
			}
		}
		if i%2 == 1 {
			io.WriteString(conn, "0\r\n\r\n")
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Fatalf("%d: answer %+v, %v, want 413", i, resp, err)
		}
		conn.Close()
		if r, err := rt.Await(t.Context(), key); err != nil || !strings.Contains(r.Result.String(), "message is larger than 8388608 bytes") {
			t.Errorf("%d: %+v, %v", i, r, err)
		}
	}
}

// TestW08EndlessBody checks that an endless body is not read forever (W08).
func TestW08EndlessBody(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			pause  time.Duration // between two parts
			within time.Duration
		}{
			{0, 7 * time.Second}, {100 * time.Millisecond, 7 * time.Second}, {time.Hour, 3 * time.Second},
		} {
			_, _, url := w.pending()
			conn, err := w.net.dial(t.Context(), "", "runtime.test:80")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: runtime.test\r\nContent-Length: %d\r\n\r\n", strings.TrimPrefix(url, "http://runtime.test"), int64(1)<<40)
			start := time.Now()
			sent := make(chan int)
			go func() {
				n := 0
				for part := make([]byte, 64<<10); err == nil; <-time.After(tt.pause) {
					var more int
					more, err = conn.Write(part)
					n += more
				}
				sent <- n
			}()
			answer, _ := io.ReadAll(conn)
			if !strings.HasPrefix(string(answer), "HTTP/1.1 413 ") || time.Since(start) > tt.within {
				t.Errorf("a part each %v: answer %.30q, closed after %v", tt.pause, answer, time.Since(start))
			}
			conn.Close()
			if tt.pause < time.Hour {
				if n := <-sent; n > 32<<20 {
					t.Errorf("a part each %v: %d bytes were read", tt.pause, n)
				}
			} else {
				defer func() { <-sent }()
			}
			w.rt.Stop(t.Context())
		}
	})
}
