package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/agentproto/host/internal/migration"
)

// only returns a dial function for one side of a world: it connects to the named hosts and to no
// other.
func (n *network) only(hosts ...string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !slices.Contains(hosts, addr) {
			return nil, errors.New("there is no way to " + addr)
		}
		return n.dial(ctx, network, addr)
	}
}

// twoHosts are the two hosts of a tunnel. Their tool servers listen on loopback and reach only
// their runtimes.
type twoHosts struct {
	*world
	here, there *toolServer
	second      *Runtime
	thread      *Thread
	// ask sends a request of one of the tool servers, from its own side.
	ask func(method, url, kind, body string) (status int, header http.Header, text string)
}

func newTwoHosts(w *world, reply string) *twoHosts {
	w.opts.MigrationKey = sharedKey
	w.opts.Timeouts.Migrate = time.Hour
	h := &twoHosts{world: w, here: w.tool("127.0.0.2").movable(), there: w.tool("127.0.0.3").movable()}
	script := conversation.Script{{Text: reply}, {Text: "again"}}
	h.thread = h.converse(script, h.here.base)
	h.second = w.another("second.test", &user{}, script, h.there.base)
	transport := &http.Transport{DialContext: w.net.only("runtime.test:80", "second.test:80"), IdleConnTimeout: time.Minute - time.Second}
	w.t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport}
	h.ask = func(method, url, kind, body string) (int, http.Header, string) {
		req, err := http.NewRequest(method, url, io.MultiReader(strings.NewReader(body))) // hides the length
		if err != nil {
			w.t.Error(err)
			return 0, nil, ""
		}
		req.Header.Set("Content-Type", kind)
		resp, err := client.Do(req)
		if err != nil {
			w.t.Errorf("%s %s: %v", method, url, err)
			return 0, nil, ""
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, resp.Header, string(text)
	}
	return h
}

// destinationOf returns the destination_url of the last /migrate request that a tool server
// recorded.
func destinationOf(s *toolServer) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Backward(s.notices) {
		if strings.HasPrefix(n, "/migrate ") {
			_, url, _ := strings.Cut(n, `"destination_url":"`)
			return strings.TrimSuffix(url, `"}`)
		}
	}
	return ""
}

// TestTunnel checks that tool servers that reach only their runtimes can hand a session over. The
// source gets an address of its own runtime, and what it sends there arrives unchanged at the
// destination.
func TestTunnel(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := newTwoHosts(w, "hello")
		w.say(h.thread, "hi")
		payload := strings.Repeat("state\x00", 100_000)
		h.there.notice = func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/migrate/import" && r.Method == http.MethodPost {
				rw.Header().Set("Content-Type", "application/octet-stream; of="+strings.ReplaceAll(r.Header.Get("Content-Type"), "/", "-"))
				io.WriteString(rw, "taken\x01")
			} else {
				rw.Header().Set("Retry-After", "7")
				http.Error(rw, "not yet", http.StatusServiceUnavailable)
			}
		}
		h.here.notice = func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/migrate" {
				return
			}
			to := destinationOf(h.here)
			if !strings.HasPrefix(to, "http://runtime.test"+migration.TunnelPath+"/") {
				t.Errorf("the destination is %s", to)
			}
			if status, _, text := h.ask("GET", to+discovery.Path, "", ""); status != 200 || text != h.there.manifest {
				t.Errorf("the manifest is %d %s", status, text)
			}
			status, header, text := h.ask("POST", to+"/migrate/import", "application/x-state", payload)
			if status != 200 || text != "taken\x01" || header.Get("Content-Type") != "application/octet-stream; of=application-x-state" {
				t.Errorf("the transfer is answered %d %q %v", status, text, header)
			}
			if status, header, text := h.ask("PUT", to+"/migrate/part/2", "a/b", ""); status != 503 || text != "not yet\n" || header.Get("Retry-After") != "7" {
				t.Errorf("a refusal is %d %q %v", status, text, header)
			}
		}
		if err := w.rt.Migrate(t.Context(), "s", "http://second.test"); err != nil {
			t.Fatalf("Migrate: %v", err)
		}
		if got := h.there.noticed(); !slices.Equal(got, []string{"/migrate/import " + payload, "/migrate/part/2 "}) {
			t.Errorf("the destination has %d requests: %.200q", len(got), got)
		}
		if n := len(h.here.migrations()); n != 1 {
			t.Errorf("the source was asked %d times", n)
		}
		if status, _, text := h.ask("POST", destinationOf(h.here)+"/migrate/import", "", "late"); status != http.StatusBadGateway {
			t.Errorf("when the session has arrived, the tunnel answers %d %s", status, text)
		}
	})
}

// TestTunnelBack checks that a tool server that has handed the session over hands it back through a
// tunnel when another one fails.
func TestTunnelBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.MigrationKey = sharedKey
		var here, there []*toolServer
		for i := range 2 {
			for _, side := range []string{"127.0.0.2", "127.0.0.3"} {
				s := w.tool(side, fmt.Sprintf("echo%d", i))
				s.base = fmt.Sprintf("http://%s:%d", side, 9000+i)
				s.manifest = fmt.Sprintf(`{"name":"set%d","needsMigration":true,"endpoint":"%s/invoke","tools":[{"name":"echo%d","description":"d","inputSchema":{}}]}`, i, s.base, i)
				l := w.net.listen(strings.TrimPrefix(s.base, "http://"))
				server := &http.Server{Handler: s}
				go server.Serve(l)
				w.t.Cleanup(func() { server.Close() })
				if side == "127.0.0.2" {
					here = append(here, s)
				} else {
					there = append(there, s)
				}
			}
		}
		script := conversation.Script{{Text: "hello"}, {Text: "still here"}}
		th := w.converse(script, here[0].base, here[1].base)
		w.another("second.test", &user{}, script, there[0].base, there[1].base)
		w.say(th, "hi")
		transport := &http.Transport{DialContext: w.net.only("runtime.test:80", "second.test:80"), IdleConnTimeout: time.Minute - time.Second}
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport}
		hand := func(from, to *toolServer, text string) {
			from.notice = func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/migrate" {
					return
				}
				resp, err := client.Post(destinationOf(from)+"/migrate/import", "a/b", strings.NewReader(text))
				if err != nil {
					t.Errorf("%s hands over: %v", from.base, err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					t.Errorf("%s hands over: %d", from.base, resp.StatusCode)
				}
			}
		}
		hand(here[0], there[0], "there")
		hand(there[0], here[0], "back")
		here[1].notice = func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/migrate" {
				http.Error(rw, "disk full", 500)
			}
		}
		err := w.rt.Migrate(t.Context(), "s", "http://second.test")
		if !errors.Is(err, ErrNotMoved) || !strings.Contains(err.Error(), "disk full") || strings.Contains(err.Error(), "did not hand") {
			t.Errorf("Migrate: %v", err)
		}
		if got := there[0].noticed(); len(got) != 2 || got[0] != "/migrate/import there" || !strings.Contains(got[1], `"destination_url":"http://second.test`+migration.TunnelPath+"/") {
			t.Errorf("the destination has %q", got)
		}
		if got := here[0].noticed(); len(got) != 2 || got[1] != "/migrate/import back" {
			t.Errorf("the source has %q", got)
		}
		w.say(th, "are you there?")
		resp, err := client.Post(destinationOf(there[0])+"/migrate/import", "a/b", strings.NewReader("late"))
		if err != nil || resp.StatusCode != http.StatusBadGateway {
			t.Fatalf("when the session is back, the tunnel answers %v, %v", resp, err)
		}
		resp.Body.Close()
	})
}
