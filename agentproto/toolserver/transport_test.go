package toolserver_test

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/netguard/netguardtest"
)

// A target is a server on the tool server's machine that must not be reached.
type target struct {
	*httptest.Server
	port string
	hits atomic.Int64
}

func newTarget(t *testing.T) *target {
	tg := new(target)
	tg.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { tg.hits.Add(1) }))
	t.Cleanup(tg.Close)
	_, tg.port, _ = net.SplitHostPort(tg.Listener.Addr().String())
	return tg
}

// guarded returns a function that invokes a tool of a server with its own transports, and a
// function that closes the server and returns its log.
func guarded(t *testing.T, opts toolserver.Options) (invoke func(callback string) int, end func() string) {
	log := new(logBuffer)
	opts.Name, opts.Logger = "test", slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if opts.PublicURL == "" {
		opts.PublicURL = "https://tools.example"
	}
	rt := &runtime{t: t, server: toolserver.New(opts), log: log, messages: make(chan received, 1)}
	addTools(rt.server)
	invoke = func(callback string) int { // not encoded by agentproto, which refuses some URLs
		return rt.post("/invoke", mustJSON(t, map[string]any{
			"operation": "add", "arguments": numbers{1, 2}, "id": "c1", "group_id": "thread-1", "callback_url": callback,
		})).Code
	}
	return invoke, func() string { rt.close(); return log.String() }
}

// TestZ05_Refused checks that a call with an address that is clearly not public is refused.
func TestZ05_Refused(t *testing.T) {
	tg := newTarget(t)
	for _, host := range []string{
		"127.0.0.1", "127.1", "localhost", "api.localhost", "LOCALHOST.", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "0.0.0.0",
		"10.0.0.1", "100.64.0.1", "169.254.169.254", "172.16.0.1", "192.0.0.1", "192.168.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "168.63.129.16",
		"[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fc00::1]", "[fe80::1%25lo]", "[ff02::1]",
	} {
		invoke, end := guarded(t, toolserver.Options{})
		if code := invoke("http://" + host + ":" + tg.port + "/canary-path?canary-query"); code != http.StatusBadRequest {
			t.Errorf("%s: answered %d, want 400", host, code)
		}
		log := end()
		if !strings.Contains(log, "callback_url") || strings.Contains(log, "canary") {
			t.Errorf("%s: the log must tell of the callback_url and no more of it: %s", host, log)
		}
	}
	for _, url := range []string{"https://runtime.example:22/", "file:///etc/passwd", "gopher://runtime.example/", "http:///x", "https://user@runtime.example/", "//runtime.example/", ""} {
		invoke, end := guarded(t, toolserver.Options{})
		if code := invoke(url); code != http.StatusBadRequest {
			t.Errorf("%q: answered %d, want 400", url, code)
		}
		end()
	}
	if n := tg.hits.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

// TestZ05_Rebinding has a name that resolves to this machine. The call is accepted, but the
// connection is not made.
func TestZ05_Rebinding(t *testing.T) {
	tg := newTarget(t)
	system := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = system })
	net.DefaultResolver = netguardtest.Resolver(func(int) []string { return []string{"127.0.0.1", "169.254.169.254", "10.0.0.1"} })

	invoke, end := guarded(t, toolserver.Options{})
	if code := invoke("http://rebinding.example.:" + tg.port + "/canary-path"); code != http.StatusOK {
		t.Fatalf("answered %d", code)
	}
	log := end()
	if n := tg.hits.Load(); n != 0 {
		t.Errorf("%d requests were made", n)
	}
	if !strings.Contains(log, "message not delivered") || !strings.Contains(log, "loopback network") || !strings.Contains(log, "rebinding.example.") {
		t.Errorf("the log does not say what was refused: %s", log)
	}
	if strings.Contains(log, "canary") {
		t.Errorf("the log has the path of the callback_url: %s", log)
	}
	if strings.Count(log, "will be sent again") != 0 {
		t.Errorf("a refused connection is tried again: %s", log)
	}
}

// TestZ05_Proxy sets a proxy in the environment, which could connect to addresses that the
// guard does not see.
func TestZ05_Proxy(t *testing.T) {
	tg := newTarget(t)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"} {
		t.Setenv(name, tg.URL)
	}
	system := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = system })
	net.DefaultResolver = netguardtest.Resolver(func(int) []string { return []string{"10.0.0.1"} })
	invoke, end := guarded(t, toolserver.Options{})
	if code := invoke("http://runtime.example.:8080/"); code != http.StatusOK {
		t.Fatalf("answered %d", code)
	}
	end()
	if n := tg.hits.Load(); n != 0 {
		t.Errorf("the proxy was asked %d times", n)
	}
}

// TestZ05_Allowed connects to addresses that the operator has allowed.
func TestZ05_Allowed(t *testing.T) {
	for name, opts := range map[string]func(url string) toolserver.Options{
		"network": func(string) toolserver.Options {
			return toolserver.Options{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
		},
		"origin":    func(url string) toolserver.Options { return toolserver.Options{CallbackOrigins: []string{url}} },
		"PublicURL": func(string) toolserver.Options { return toolserver.Options{PublicURL: "http://localhost:8080"} },
	} {
		t.Run(name, func(t *testing.T) {
			tg := newTarget(t)
			invoke, end := guarded(t, opts(tg.URL))
			if code := invoke(tg.URL + "/cb"); code != http.StatusOK {
				t.Fatalf("answered %d", code)
			}
			log := end()
			if n := tg.hits.Load(); n != 1 {
				t.Errorf("%d requests: %s", n, log)
			}
		})
	}
}
