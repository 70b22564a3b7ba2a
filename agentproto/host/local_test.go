package host_test

import (
	"context"
	"net/http"
	"net/netip"
	"testing"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/internal/inprocess"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// TestLocal calls a tool of a tool server that is a handler in this process and has no address.
func TestLocal(t *testing.T) {
	const base = "http://clock.invalid"
	var rt *host.Runtime
	calls := &inprocess.Transport{}
	server := toolserver.New(toolserver.Options{
		Name: "clock", PublicURL: base, CallbackTransport: calls,
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
	})
	toolserver.Add(server, "now", "Says the time.", func(context.Context, struct{}) (string, error) { return "noon", nil })
	rt, err := host.Start(t.Context(), host.Options{Local: map[string]http.Handler{base: server}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Stop(context.WithoutCancel(t.Context()))
	calls.Handlers = map[string]http.Handler{rt.PublicURL(): rt.Handler()}
	if p := rt.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	key, err := rt.Call(t.Context(), host.Request{GroupID: "t", ID: "c", Operation: "now"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := rt.Await(t.Context(), key)
	if err != nil || r.Result.String() != "noon" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, wrong := range []string{"clock.invalid", "http://clock.invalid/", "http://Clock.invalid", "ftp://clock.invalid", ""} {
		if rt, err := host.Start(t.Context(), host.Options{Local: map[string]http.Handler{wrong: server}}); err == nil {
			t.Errorf("%q was taken", wrong)
			_ = rt.Stop(t.Context())
		}
	}
}
