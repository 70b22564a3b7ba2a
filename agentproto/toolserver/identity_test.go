package toolserver_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// sameUsers makes the users of the provider those of the runtime.
func sameUsers(p *toolserver.OAuthProvider) {
	p.SubjectIsUser = true
	p.KeysURL = strings.TrimSuffix(p.Issuer, "/") + "/keys"
}

const (
	adaID  = "user-1815" // her ID at the provider of the stage
	failed = "Error: the authorization failed"
)

func TestO24_AnotherUserAuthorizes(t *testing.T) {
	st := newStage(t, toolserver.Options{}, sameUsers)
	// A user sends the address to another user.
	st.call("whoami", "c1", "{}", user(adaID))
	page, err := st.idp.NewBrowser().Allow(t.Context(), st.authURL(), "bob", "builder")
	if err == nil || !strings.Contains(page, "by somebody else than the user") {
		t.Errorf("page %s, %v", page, err)
	}
	if got := st.nextResult(); got != "Error: the access was authorized by somebody else than the user" || st.vault.saved() != 0 {
		t.Errorf("result %q, %d tokens", got, st.vault.saved())
	}
	st.call("whoami", "c2", "{}", user(adaID))
	st.allow(st.authURL(), "ada", "lovelace")
	if got := st.nextResult(); got != "ada" || st.vault.saved() != 1 {
		t.Errorf("result %q, %d tokens", got, st.vault.saved())
	}
	// Without a user there is nothing to compare, so nobody is asked.
	st.call("whoami", "c3", "{}", thread(adaID))
	if got := st.nextResult(); got != "Error: the access needs a user, whom the call does not name" {
		t.Errorf("result %q", got)
	}
	st.ends()
}

// TestIDTokens has a token endpoint whose id_token is invalid.
func TestIDTokens(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(key jose.SigningKey, claims map[string]any) string {
		signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var first string // the id_token of an earlier authorization
	for name, forge := range map[string]func(claims map[string]any) any{
		"missing":         func(map[string]any) any { return nil },
		"no token at all": func(map[string]any) any { return "canary" },
		"no text":         func(map[string]any) any { return 5 },
		"replayed":        func(map[string]any) any { return first },
		"signed by another": func(c map[string]any) any {
			return sign(jose.SigningKey{Algorithm: jose.ES256, Key: key}, c)
		},
		"signed with the client's secret": func(c map[string]any) any {
			return sign(jose.SigningKey{Algorithm: jose.HS256, Key: []byte("millrace-demo-millrace-demo-1234")}, c)
		},
		"not signed": func(c map[string]any) any {
			parts := strings.Split(first, ".")
			return "eyJhbGciOiJub25lIn0." + parts[1] + "."
		},
	} {
		t.Run(name, func(t *testing.T) {
			meddling := false
			m := &meddler{answer: func(r *http.Request, real func() *http.Response) *http.Response {
				resp := real()
				if resp == nil || !strings.HasSuffix(r.URL.Path, "/token") {
					return resp
				}
				body, _ := io.ReadAll(resp.Body)
				var answer map[string]any
				if err := json.Unmarshal(body, &answer); err != nil {
					t.Error(err)
				}
				if id := answer["id_token"].(string); !meddling {
					first = id
				} else {
					token, err := jwt.ParseSigned(id, []jose.SignatureAlgorithm{jose.ES256})
					claims := map[string]any{}
					if err != nil || token.UnsafeClaimsWithoutVerification(&claims) != nil {
						t.Error(err)
					}
					answer["id_token"] = forge(claims)
				}
				body, _ = json.Marshal(answer)
				resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				return resp
			}}
			st := newStage(t, toolserver.Options{ProviderTransport: m}, sameUsers)
			st.call("whoami", "c1", "{}", user(adaID))
			st.allow(st.authURL(), "ada", "lovelace")
			if got := st.nextResult(); got != "ada" {
				t.Fatalf("result %q", got)
			}
			meddling = true
			st.call("whoami", "c2", "{}", user(adaID), callback("https://other.example/cb"))
			if code := st.open(st.grant(st.authURL()).String()); code != 502 {
				t.Errorf("page %d", code)
			}
			if got := st.nextResult(); got != failed || st.vault.saved() != 1 {
				t.Errorf("result %q, %d tokens", got, st.vault.saved())
			}
			st.ends()
		})
	}
}

// confirm answers the questions for the code and returns their number.
func (st *stage) confirm(pick func(choices []string) int) int {
	st.t.Helper()
	for n := 0; ; n++ {
		m := st.next()
		q, ok := m.Callback.(*agentproto.UserChoice)
		if !ok {
			st.messages <- m
			return n
		}
		if q.Default != len(q.Choices)-1 || !strings.HasPrefix(q.Choices[q.Default], "None of these") {
			st.t.Errorf("the default is %q", q.Choices[q.Default])
		}
		if len(q.Choices) != 26 { // another number changes the odds of a guess
			st.t.Errorf("%d choices, want 25 numbers and none of them", len(q.Choices))
		}
		path := strings.TrimPrefix(q.ResponseURL, st.opts.PublicURL)
		if w := st.post(path, mustJSON(st.t, map[string]any{"id": q.ID, "selected": pick(q.Choices)})); w.Code != 200 {
			st.t.Errorf("answer: %d %s", w.Code, w.Body)
		}
	}
}

func confirmed(p *toolserver.OAuthProvider) { p.Confirm = true }

func TestO24_Confirmation(t *testing.T) {
	st := newStage(t, toolserver.Options{}, confirmed)
	var code []string
	authorize := func(id, who string) {
		t.Helper()
		st.call("whoami", id, "{}", user("attacker who "+id))
		page, err := st.idp.NewBrowser().Allow(t.Context(), st.authURL(), who, map[string]string{"ada": "lovelace", "bob": "builder"}[who])
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(page, "<strong>")
		rest, _, _ = strings.Cut(rest, "</strong>")
		if code = strings.Fields(rest); len(code) != 2 || strings.Contains(page, "The access is authorized") {
			t.Fatalf("page %s", page)
		}
		st.pages = append(st.pages, page)
	}
	index := func(choices []string, want string) int {
		for i, c := range choices {
			if c == want {
				return i
			}
		}
		t.Errorf("%s is not among %q", want, choices)
		return 0
	}
	// The victim has authorized, and the attacker does not see the victim's page.
	for id, pick := range map[string]func([]string) int{
		"dismissed": func(c []string) int { return len(c) - 1 },
		"guessed":   func(c []string) int { return (index(c, code[0]) + 1) % (len(c) - 1) },
	} {
		authorize(id, "ada")
		if n := st.confirm(pick); n != 1 {
			t.Errorf("%s: %d questions", id, n)
		}
		if got := st.nextResult(); got != "Error: the authorization was not confirmed" || st.vault.saved() != 0 {
			t.Errorf("%s: result %q, %d tokens", id, got, st.vault.saved())
		}
	}
	authorize("half", "ada")
	first := true
	st.confirm(func(c []string) int {
		if first {
			first = false
			return index(c, code[0])
		}
		return len(c) - 1
	})
	if got := st.nextResult(); got != "Error: the authorization was not confirmed" || st.vault.saved() != 0 {
		t.Errorf("half: result %q, %d tokens", got, st.vault.saved())
	}
	// The user authorizes himself.
	authorize("himself", "bob")
	left := code
	if n := st.confirm(func(c []string) int {
		i := index(c, left[0])
		left = left[1:]
		return i
	}); n != 2 {
		t.Errorf("%d questions", n)
	}
	if got := st.nextResult(); got != "bob" || st.vault.saved() != 1 {
		t.Errorf("result %q, %d tokens", got, st.vault.saved())
	}
	st.ends()
}

func TestO24_ConfirmationAfterRestart(t *testing.T) {
	t.Parallel()
	st := newStage(t, toolserver.Options{State: t.TempDir(), OAuthTimeout: time.Minute}, confirmed)
	st.call("whoami", "c1", "{}", user("u1"))
	first := st.authURL()
	if code := st.open(st.grant(first).String()); code != 200 {
		t.Errorf("page %d", code)
	}
	if m := st.next(); m.Type() != agentproto.TypeUserChoice {
		t.Fatalf("got %s", m.body)
	}
	st.restart() // unconfirmed authorizations are not kept, so everything starts over
	if err := st.server.Start(); err != nil {
		t.Fatal(err)
	}
	m := st.next()
	for m.Type() == agentproto.TypeUserChoice { // the old question was already being delivered
		m = st.next()
	}
	if o, ok := m.Callback.(*agentproto.OAuth); !ok || o.AuthURL == first {
		t.Errorf("got %s", m.body)
	}
	st.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`)
	st.ends()
}

func TestSubjectIsUserNeedsKeys(t *testing.T) {
	for want, change := range map[string]func(*toolserver.OAuthProvider){
		"needs an Issuer and the scope openid":  func(p *toolserver.OAuthProvider) { p.Scopes = nil },
		"KeysURL must be an absolute https URL": func(p *toolserver.OAuthProvider) { p.KeysURL = "http://keys.example" },
		"nonce must not be in Params":           func(p *toolserver.OAuthProvider) { p.Params = map[string]string{"nonce": "n"} },
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			p := toolserver.OAuthProvider{ID: "p", AuthURL: "https://id.example/a", TokenURL: "https://id.example/t", ClientID: "c",
				Issuer: "https://id.example", Scopes: []string{"openid"}, SubjectIsUser: true, KeysURL: "https://id.example/k"}
			change(&p)
			toolserver.New(toolserver.Options{Name: "n", PublicURL: "https://tools.example", Providers: []toolserver.OAuthProvider{p}})
		}()
	}
}
