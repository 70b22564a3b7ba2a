package exampletools_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/exampletools"
	"github.com/millrace/millrace/internal/exampletools/account"
	"github.com/millrace/millrace/internal/idp"
)

// callbacks is a runtime's callback endpoint in memory.
type callbacks chan agentproto.Callback

func (c callbacks) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := agentproto.DecodeCallback(body, agentproto.Limits{})
	if err != nil {
		return nil, err
	}
	c <- m
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// result returns the text of the next message, which must be a result.
func (c callbacks) result(t *testing.T) string {
	t.Helper()
	m := <-c
	r, ok := m.(*agentproto.ToolResult)
	if !ok {
		t.Fatalf("got %+v, want a result", m)
	}
	return r.String()
}

func options() (toolserver.Options, callbacks) {
	c := make(callbacks, 4096)
	return toolserver.Options{PublicURL: "https://tools.example", CallbackTransport: c}, c
}

// open returns server and panics on an error. There is none: a test server keeps nothing or has a
// folder of its own.
func open(server *toolserver.Server, err error) *toolserver.Server {
	if err != nil {
		panic(err)
	}
	return server
}

func invocation(tool, id, args string) *http.Request {
	body := fmt.Sprintf(`{"operation":%q,"arguments":%s,"id":%q,"group_id":"thread-1","user_id":"user-1815","callback_url":"https://runtime.example/cb"}`, tool, args, id)
	r := httptest.NewRequest(http.MethodPost, "/invoke", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

func call(t *testing.T, h http.Handler, tool, id, args string) {
	t.Helper()
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, invocation(tool, id, args)); w.Code != 200 {
		t.Fatalf("%s: %d %s", tool, w.Code, w.Body)
	}
}

func post(t *testing.T, h http.Handler, path, body string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 200 {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
}

func TestManifests(t *testing.T) {
	opts, _ := options()
	for _, s := range []*toolserver.Server{
		open(exampletools.Clock(exampletools.ClockOptions{Server: opts})),
		open(exampletools.Slow(opts)),
		open(exampletools.Feed(opts)),
		open(account.Open(account.Options{Server: opts, Provider: toolserver.OAuthProvider{
			ID: "idp", AuthURL: "https://id.example/a", TokenURL: "https://id.example/t", ClientID: "c", Confirm: true}})),
	} {
		data, err := agentproto.Encode(s.Manifest())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := agentproto.DecodeManifest(data, agentproto.Limits{}); err != nil {
			t.Error(err)
		}
	}
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts, got := options()
		server := open(exampletools.Clock(exampletools.ClockOptions{Server: opts, Now: func() time.Time {
			return time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
		}}))
		for i, c := range []struct{ tool, args, want string }{
			{"echo", `{"text":"hello"}`, "hello"},
			{"add", `{"a":0.5,"b":2}`, "2.5"},
			{"now", `{}`, "2026-02-03T04:05:06Z"},
			{"fail", `{}`, "Error: this tool always fails"},
			{"fail", `{"reason":"rain"}`, "Error: rain"},
			{"strict", `{"name":"Ada","nights":2,"late":true,"guests":[{"name":"Bob","age":9}],"extras":{"towel":3}}`, "Ada for 2 nights, Bob (9), 1 extras, late arrival"},
			{"strict", `{"name":"Ada","nights":256}`, `Error: argument "/nights"`},
			{"strict", `{"name":"Ada","nights":1,"guests":[{"name":"Bob","age":"nine"}]}`, `Error: argument "/guests/0/age"`},
			{"strict", `{"name":"Ada","nights":1,"extras":{"towel":1.5}}`, `Error: argument "/extras/towel"`},
		} {
			call(t, server, c.tool, fmt.Sprint("c", i), c.args)
			if text := got.result(t); !strings.HasPrefix(text, c.want) {
				t.Errorf("%s(%s) = %q, want %q", c.tool, c.args, text, c.want)
			}
		}
		call(t, server, "thrice", "t", `{"text":"again"}`)
		for range 3 {
			if text := got.result(t); text != "again" {
				t.Errorf("thrice: %q", text)
			}
		}
		if err := server.Close(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("%v, %d more messages", err, len(got))
		}
	})
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts, got := options()
		server := open(exampletools.Slow(opts))
		start := time.Now()
		call(t, server, "sleep", "c1", `{"ms":1500}`)
		if text := got.result(t); text != "slept for 1500 ms" || time.Since(start) != 1500*time.Millisecond {
			t.Errorf("%q after %v", text, time.Since(start))
		}
		call(t, server, "overdue", "c2", `{"ms":10}`)
		if text := got.result(t); text != "answered after 10 ms" {
			t.Errorf("in time: %q", text)
		}
		call(t, server, "sleep", "c3", `{"ms":1500}`)
		call(t, server, "overdue", "c4", `{"ms":1500}`)
		call(t, server, "mute", "c5", `{}`)
		synctest.Wait() // a call that is cancelled before its function runs never does
		for _, id := range []string{"c3", "c4", "c5"} {
			post(t, server, "/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"`+id+`"}`)
		}
		if text := got.result(t); text != "answered after 1500 ms" {
			t.Errorf("overdue: %q", text)
		}
		if err := server.Close(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("%v, %d more messages", err, len(got))
		}
	})
}

func TestSlowCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts, got := options()
		server := open(exampletools.Slow(opts))
		start := time.Now()
		for i := range 1000 {
			call(t, exampletools.Mute(server), "sleep", fmt.Sprint("c", i), `{"ms":100}`)
		}
		for range 1000 {
			got.result(t)
		}
		if d := time.Since(start); d != 100*time.Millisecond {
			t.Errorf("a crowd took %v", d)
		}
		if err := server.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestMute(t *testing.T) {
	opts, got := options()
	server := open(exampletools.Slow(opts))
	web := httptest.NewServer(exampletools.Mute(server))
	defer web.Close()
	send := func(ctx context.Context, tool string) (*http.Response, error) {
		in := invocation(tool, tool, `{"ms":0}`)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL+"/invoke", in.Body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = in.Header
		return web.Client().Do(r)
	}
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := send(ctx, "mute"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("mute was acknowledged: %v", err)
	}
	resp, err := send(t.Context(), "sleep")
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v %v", resp, err)
	}
	resp.Body.Close()
	got.result(t)
	if err := server.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAccount(t *testing.T) {
	provider, err := idp.Start(idp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer provider.Close()
	opts, got := options()
	web := httptest.NewUnstartedServer(nil)
	defer web.Close()
	opts.PublicURL = "http://" + web.Listener.Addr().String()
	opts.ProviderRootCAs = provider.CertPool()
	provider.RegisterRedirect(idp.DefaultClientID, opts.PublicURL+"/oauth/callback/idp")
	server := open(account.Open(account.Options{
		Server: opts,
		Provider: toolserver.OAuthProvider{
			ID: "idp", AuthURL: provider.AuthURL(), TokenURL: provider.TokenURL(), ClientID: idp.DefaultClientID,
			Scopes: []string{"openid", "profile"}, Issuer: provider.Issuer(), RequireIssuer: true,
			SubjectIsUser: true, KeysURL: provider.KeysURL(),
		},
		UserInfoURL: provider.UserInfoURL(),
	}))
	web.Config.Handler = server
	web.Start()

	call(t, server, "whoami", "c1", `{}`)
	asked, ok := (<-got).(*agentproto.OAuth)
	if !ok {
		t.Fatal("want an oauth message")
	}
	if _, err := provider.NewBrowser().Allow(t.Context(), asked.AuthURL, "ada", "lovelace"); err != nil {
		t.Fatal(err)
	}
	if text := got.result(t); text != "ada (user-1815)" {
		t.Errorf("whoami: %q", text)
	}
	call(t, server, "calendar", "c2", `{}`)
	if text := got.result(t); !strings.Contains(text, `{"at":"09:00","title":"Stand-up with ada"}`) {
		t.Errorf("calendar: %q", text)
	}
	for i, c := range []struct{ args, want string }{{`{}`, "coffee"}, {`{"items":["a","b"]}`, "b"}} {
		id := fmt.Sprint("o", i)
		call(t, server, "order", id, c.args)
		q, ok := (<-got).(*agentproto.UserChoice)
		if !ok {
			t.Fatal("want a user_choice message")
		}
		post(t, server, strings.TrimPrefix(q.ResponseURL, opts.PublicURL), `{"id":"`+id+`","selected":1}`)
		if text := got.result(t); text != c.want {
			t.Errorf("order: %q", text)
		}
	}
	if err := server.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
