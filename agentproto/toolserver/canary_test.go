package toolserver_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/idp"
)

// disguises are encodings of a token that a tool function might meet.
var disguises = map[string]func(string) string{
	"as it is":   func(s string) string { return s },
	"base64":     func(s string) string { return base64.StdEncoding.EncodeToString([]byte("Bearer " + s)) },
	"base64 url": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"address":    func(s string) string { return "https://api.example/?access_token=" + url.QueryEscape(s) },
	"percent": func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
		return b.String()
	},
}

// addLeaks adds tools that put their token into every possible output.
func (st *stage) addLeaks() {
	type how struct{ Disguise, Where string }
	needsAuth := toolserver.ToolOptions{RequireOAuth: "idp"}
	give := func(ctx context.Context, in how) (string, error) {
		token, err := toolserver.Token(ctx)
		if err != nil {
			return "", err
		}
		return disguises[in.Disguise](token.Reveal()), nil
	}
	toolserver.AddWithOptions(st.server, "give", "Gives its token away.", needsAuth, func(ctx context.Context, in how) (any, error) {
		secret, err := give(ctx, in)
		if err != nil {
			return nil, err
		}
		switch in.Where {
		case "text":
			return secret, nil
		case "JSON":
			return map[string]any{"a": []string{secret}}, nil
		case "content":
			return []agentproto.Content{{Type: "text", Text: "harmless"}, {Type: "text", Text: secret}}, nil
		case "error":
			return nil, errors.New("GET " + secret)
		case "panic":
			panic(errors.New(secret))
		case "view":
			return "view refused", errors.Join(toolserver.View(ctx, "v", map[string]any{"deep": []any{secret}}))
		case "view type":
			return nil, toolserver.View(ctx, secret, map[string]any{})
		case "question":
			_, err := toolserver.Choose(ctx, "Is it "+secret+"?", []string{"yes"}, 0)
			return nil, err
		case "choice":
			_, err := toolserver.Choose(ctx, "Which?", []string{"this", secret}, 0)
			return nil, err
		case "request":
			_, err := toolserver.Client(ctx).Get("https://127.0.0.1:1/" + secret)
			return nil, err
		}
		return nil, fmt.Errorf("there is no %q", in.Where)
	})
	toolserver.AddSubscription(st.server, "stream", "Streams its token.", needsAuth,
		func(ctx context.Context, in how) (string, *how, error) {
			if in.Where == "first state" {
				secret, err := give(ctx, in)
				return "harmless", &how{Disguise: secret}, err
			}
			return "open", &in, nil
		},
		func(ctx context.Context, sub *toolserver.Subscription[how]) error {
			in := sub.State()
			secret, err := give(ctx, in)
			if err != nil {
				return err
			}
			switch in.Where {
			case "event":
				return sub.Send(ctx, toolserver.Event{Text: secret}, in)
			case "saved state":
				in.Disguise = secret
				return sub.Save(in)
			case "state":
				in.Disguise = secret
				return sub.Send(ctx, toolserver.Event{Text: "harmless"}, in)
			case "panic":
				panic(secret)
			}
			return errors.New(secret)
		})
}

const withheld = "[withheld: it had a credential in it]"

// withheld receives the output of a leaking tool, and checks that only the parts with the token are replaced (N11).
func (st *stage) withheld(where string) {
	st.t.Helper()
	want := "Error: "
	switch where {
	case "content":
		want = "harmless"
	case "view", "view type":
		m := st.next()
		v, ok := m.Callback.(*agentproto.ViewUpdate)
		if !ok || where == "view" && (v.ViewType != "v" || string(v.Content) != `{"deep":["`+withheld+`"]}`) || where == "view type" && v.ViewType != withheld {
			st.t.Errorf("%s: %s", where, m.body)
		}
		want = map[string]string{"view": "view refused", "view type": "null"}[where]
	case "question", "choice":
		q, path := st.question()
		if where == "question" && (q.Prompt != withheld || q.Choices[0] != "yes") || where == "choice" && (q.Prompt != "Which?" || q.Choices[0] != "this" || q.Choices[1] != withheld) {
			st.t.Errorf("%s: %+v", where, q)
		}
		st.post(path, `{"id":"`+q.ID+`","selected":0}`)
		want = "null"
	}
	m := st.next()
	r, ok := m.Callback.(*agentproto.ToolResult)
	if !ok || !strings.HasPrefix(r.String(), want) {
		st.t.Errorf("%s: %s, want %q", where, m.body, want)
	}
}

// TestO19_Canaries goes through everything that can happen to an authorization, with tools
// that leak tokens wherever they can. It then searches all that the server has produced
// for every code, verifier, token and client secret.
func TestO19_Canaries(t *testing.T) {
	t.Parallel()
	st := newStage(t, toolserver.Options{State: t.TempDir()}, func(p *toolserver.OAuthProvider) {
		p.ClientID, p.ClientSecret = confidential, toolserver.NewSecret(confidentialSecret)
	})
	st.secrets = append(st.secrets, confidentialSecret)
	st.addLeaks()
	n := 0
	call := func(tool string, args any, who string) {
		t.Helper()
		n++
		st.call(tool, fmt.Sprint("call-", n), mustJSON(t, args), user(who))
	}
	browse := func(f func(b *idp.Browser, authURL string) (string, error)) {
		t.Helper()
		page, err := f(st.idp.NewBrowser(), st.authURL())
		if err != nil {
			page += err.Error()
		}
		st.pages = append(st.pages, page)
	}
	allow := func(b *idp.Browser, authURL string) (string, error) {
		return b.Allow(t.Context(), authURL, "ada", "lovelace")
	}
	want := func(prefix string) {
		t.Helper()
		if got := st.nextResult(); !strings.HasPrefix(got, prefix) {
			t.Errorf("result %q, want %q", got, prefix)
		}
	}

	call("whoami", none{}, "u1") // denial
	browse(func(b *idp.Browser, u string) (string, error) { return b.Deny(t.Context(), u, "ada", "lovelace") })
	want("Error: the user did not authorize")
	for _, code := range []int{400, 401, 500, 200} { // failures whose response repeats the code
		call("whoami", none{}, "u1")
		st.idp.FailTokenEndpoint(code, 1)
		browse(allow)
		want(failed)
	}
	call("whoami", none{}, "u8") // the answer of another flow
	first := st.grant(st.authURL())
	call("whoami", none{}, "u9")
	second := st.grant(st.authURL())
	st.open(set(second, "code", first.Query().Get("code")))
	want(failed)
	st.open(set(first, "state", first.Query().Get("code")))
	st.open(first.String())
	want("ada")
	call("whoami", none{}, "u1") // success after a restart
	to := st.grant(st.authURL())
	st.restart()
	st.addLeaks()
	st.open(to.String())
	for m := st.next(); m.Type() != agentproto.TypeToolResult; m = st.next() {
	}
	st.open(to.String())

	for name := range disguises {
		for _, where := range []string{"text", "JSON", "content", "error", "panic", "view", "view type", "question", "choice", "request"} {
			call("give", map[string]string{"Disguise": name, "Where": where}, "u1")
			st.withheld(where)
		}
		call("stream", map[string]string{"Disguise": name, "Where": "first state"}, "u1")
		want("Error: ")
		for _, where := range []string{"event", "state", "saved state", "panic", "error"} {
			call("stream", map[string]string{"Disguise": name, "Where": where}, "u1")
			want("open")
			e := st.event()
			if where == "event" {
				if e.Final || e.Text != withheld {
					t.Errorf("%s, %s: event %q", name, where, e.Text)
				}
				e = st.event()
			}
			if !e.Final || where == "error" && e.Text != withheld || where != "error" && where != "event" && !strings.HasPrefix(e.Text, "Error: ") {
				t.Errorf("%s, %s: event %q", name, where, e.Text)
			}
		}
	}
	st.idp.ExpireTokens("ada") // refresh
	call("whoami", none{}, "u1")
	want("ada")
	call("give", map[string]string{"Disguise": "as it is", "Where": "text"}, "u1")
	want("Error: ")
	st.idp.ExpireTokens("ada") // a refused refresh
	st.idp.RevokeRefresh("ada")
	call("whoami", none{}, "u1")
	browse(allow)
	want("ada")
	st.restart() // with the token from the vault
	st.addLeaks()
	call("give", map[string]string{"Disguise": "base64", "Where": "JSON"}, "u1")
	want("Error: ")
	if resp, err := http.Get(st.opts.PublicURL + "/oauth/callback/idp?error=server_error&error_description=x&state=y"); err == nil {
		resp.Body.Close()
	}
	if n := len(st.idp.Secrets()); n < 25 {
		t.Errorf("only %d secrets were made", n)
	}
	st.ends()
}
