package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/internal/netguard"
)

// TestZ04Runtime checks that a runtime does not follow a tool server into its own
// network, by an address or a redirect (D13, I10, Z04).
func TestZ04Runtime(t *testing.T) {
	var reached []string
	inside := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached = append(reached, r.URL.Path)
	}))
	defer inside.Close()
	_, port, _ := net.SplitHostPort(inside.Listener.Addr().String())
	var tool *httptest.Server
	tool = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == discovery.Path {
			fmt.Fprintf(rw, `{"name":"s","endpoint":"%s/i","tools":[{"name":"echo","description":"d","inputSchema":{}}]}`, tool.URL)
			return
		}
		http.Redirect(rw, r, inside.URL+"/redirected", http.StatusTemporaryRedirect)
	}))
	defer tool.Close()
	rt, err := Start(t.Context(), Options{
		Toolsets: []string{tool.URL, "http://[::ffff:127.0.0.1]:" + port},
		External: true, PublicURL: "https://agents.example", Surface: &user{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Stop(context.Background())
	if got := rt.Problems(); len(got) != 1 || !errors.Is(got[0], netguard.ErrBlocked) {
		t.Errorf("problems %v", got)
	}
	key, err := rt.Call(t.Context(), Request{GroupID: "g", Operation: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := rt.Await(t.Context(), key)
	if err != nil || !strings.Contains(r.Result.String(), "redirected the call") {
		t.Errorf("result %+v, %v", r, err)
	}
	if len(reached) != 0 {
		t.Errorf("reached %q", reached)
	}
}
