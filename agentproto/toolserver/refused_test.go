package toolserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// A renewer is a provider that renews tokens: the token "a1" with the refresh token "a1" becomes "a2", and so on.
type renewer struct{}

func (renewer) RoundTrip(r *http.Request) (*http.Response, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, err
	}
	old := form.Get("refresh_token")
	next := fmt.Sprintf("%s%c", old[:len(old)-1], old[len(old)-1]+1)
	resp := status(200, "Content-Type", "application/json")
	resp.Body = io.NopCloser(strings.NewReader(fmt.Sprintf(`{"access_token":%q,"refresh_token":%[1]q,"token_type":"Bearer"}`, next)))
	return resp, nil
}

// newRenewed returns a server whose user has a token of each of two providers.
func newRenewed(t *testing.T) *runtime {
	t.Helper()
	vault := toolserver.NewMemoryVault()
	opts := toolserver.Options{Vault: vault, ProviderTransport: renewer{}}
	for _, id := range []string{"files", "mail"} {
		opts.Providers = append(opts.Providers, toolserver.OAuthProvider{
			ID: id, AuthURL: "https://idp.example/auth", TokenURL: "https://idp.example/token", ClientID: "client",
			UnsafeAnyoneMayAuthorize: "the test is every user",
		})
		token := toolserver.NewSecret("token-of-" + id + "-1")
		key := toolserver.TokenKey{Runtime: "https://runtime.example", User: "user:u1", Provider: id}
		if err := vault.Save(t.Context(), key, &toolserver.UserToken{Access: token, Refresh: token}); err != nil {
			t.Fatal(err)
		}
	}
	return newRuntime(t, opts)
}

// TestRefusedOfTwoProviders has a call find that the tokens of two providers are refused. The test fails if the second token is
// thrown away as one that was just renewed, so that the user is asked although it can be renewed.
func TestRefusedOfTwoProviders(t *testing.T) {
	rt := newRenewed(t)
	toolserver.Add(rt.server, "both", "Uses two providers.", func(ctx context.Context, _ none) (string, error) {
		var last []string
		for _, id := range []string{"files", "mail"} {
			token, err := toolserver.Authorize(ctx, id, nil, toolserver.Secret{})
			if err == nil {
				token, err = toolserver.Authorize(ctx, id, nil, token)
			}
			if err != nil {
				return "", err
			}
			text := token.Reveal()
			last = append(last, text[len(text)-1:])
		}
		return strings.Join(last, " "), nil
	})
	rt.call("both", "c1", "{}", user("u1"))
	if m := rt.next(); !strings.Contains(m.body, `"2 2"`) {
		t.Errorf("got %s, want renewed tokens", m.body)
	}
	rt.close()
}

// TestRefusedInGoroutines has four goroutines of one call find that their token is refused. The test fails if one of them is told
// that a new token was refused, or if the user is asked.
func TestRefusedInGoroutines(t *testing.T) {
	rt := newRenewed(t)
	toolserver.Add(rt.server, "together", "Makes requests at once.", func(ctx context.Context, _ none) (string, error) {
		token, err := toolserver.Authorize(ctx, "files", nil, toolserver.Secret{})
		if err != nil {
			return "", err
		}
		var each sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			each.Go(func() { _, errs[i] = toolserver.Authorize(ctx, "files", nil, token) })
		}
		each.Wait()
		for _, err := range errs {
			if err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	rt.call("together", "c1", "{}", user("u1"))
	if m := rt.next(); !strings.Contains(m.body, `"done"`) {
		t.Errorf("got %s", m.body)
	}
	rt.close()
}
