package toolserver_test

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// A silent server does not answer, or, if begins is set, does not end its answers.
type silent struct{ begins bool }

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.begins {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	resp := status(200)
	resp.Body = silentBody{r.Context()}
	return resp, nil
}

type silentBody struct{ ctx context.Context }

func (b silentBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

func (silentBody) Close() error { return nil }

// newUser returns a server whose user has a token of the provider "idp".
func newUser(t *testing.T, service http.RoundTripper) *runtime {
	t.Helper()
	vault := toolserver.NewMemoryVault()
	key := toolserver.TokenKey{Runtime: "https://runtime.example", User: "user:u1", Provider: "idp"}
	if err := vault.Save(t.Context(), key, &toolserver.UserToken{Access: toolserver.NewSecret("token-of-u1")}); err != nil {
		t.Fatal(err)
	}
	return newRuntime(t, toolserver.Options{Vault: vault, ProviderTransport: service, Providers: []toolserver.OAuthProvider{{
		ID: "idp", AuthURL: "https://idp.example/auth", TokenURL: "https://idp.example/token", ClientID: "client",
		UnsafeAnyoneMayAuthorize: "the test is every user",
	}}})
}

// TestClientEndsWithCall cancels a call whose function makes a request without a context to a service that does not answer. The
// test fails if the function does not return.
func TestClientEndsWithCall(t *testing.T) {
	for _, begins := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rt := newUser(t, silent{begins})
			var returned atomic.Bool
			toolserver.AddWithOptions(rt.server, "fetch", "Fetches.", toolserver.ToolOptions{RequireOAuth: "idp"}, func(ctx context.Context, _ none) (string, error) {
				defer returned.Store(true)
				resp, err := toolserver.Client(ctx).Get("https://service.example/")
				if err != nil {
					return "", err
				}
				defer resp.Body.Close()
				_, err = io.ReadAll(resp.Body)
				return "fetched", err
			})
			rt.call("fetch", "c1", "{}", user("u1"))
			synctest.Wait()
			rt.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`)
			synctest.Wait()
			if !returned.Load() {
				t.Fatal("the function has not returned")
			}
			rt.close()
		})
	}
}

// A watchedBody is the body of a request.
type watchedBody struct {
	io.Reader
	closed atomic.Bool
}

func (b *watchedBody) Close() error {
	b.closed.Store(true)
	return nil
}

// TestClientClosesBody makes a request that must not be made. The test fails if its body stays open: the writer of a pipe would
// wait for ever.
func TestClientClosesBody(t *testing.T) {
	rt := newUser(t, silent{})
	body := new(watchedBody)
	toolserver.AddWithOptions(rt.server, "send", "Sends.", toolserver.ToolOptions{RequireOAuth: "idp"}, func(ctx context.Context, _ none) (string, error) {
		_, err := toolserver.Client(ctx).Post("http://service.example/", "text/plain", body)
		return "sent", err
	})
	rt.call("send", "c1", "{}", user("u1"))
	rt.next()
	if !body.closed.Load() {
		t.Error("the body is open")
	}
	rt.close()
}
