package agentchaos

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// countTo is the last event of a subscription.
const countTo = 8

// offered are the choices, and chosen is the index of the one that the user always takes.
var offered = []string{"tea", "coffee", "cake"}

const chosen = 2

// runTools is the main function of a tool server's process. Every result begins with the
// id of its call and ends with a text that is unique to the run of the function, so that
// two results of one call differ.
func runTools(c config) error {
	book := new(notebook)
	l, err := listen(c.Listen)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.CA)
	watched := &witness{book, &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second}}
	server, err := toolserver.Open(toolserver.Options{
		Name: c.Name, PublicURL: "http://" + c.Listen, State: c.State, CallbackTransport: watched,
		Providers: []toolserver.OAuthProvider{{
			ID: "idp", AuthURL: c.AuthURL, TokenURL: c.TokenURL, ClientID: clientID, Issuer: c.Issuer, RequireIssuer: true,
			Scopes:                   []string{"openid", "profile", "offline_access"},
			UnsafeAnyoneMayAuthorize: "the test is every user",
		}},
		ProviderRootCAs: roots,
		Logger:          slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	addTools(server, c.Name, &http.Client{Transport: watched})
	if err := server.Start(); err != nil {
		return err
	}
	book.write(note{What: "ready"})
	return http.Serve(l, server)
}

// work holds how long a tool takes.
type work struct {
	MS int `json:"ms,omitempty"`
}

func (w work) wait(ctx context.Context) error {
	if !pass(ctx, time.Duration(w.MS)*time.Millisecond) {
		return context.Cause(ctx)
	}
	return nil
}

// A place is the position of a subscription.
type place struct{ Next int }

// answer returns a result that is unique to this run of a function.
func answer(ctx context.Context, text string) string {
	return fmt.Sprintf("%s %s %s", toolserver.Invocation(ctx).ID, text, rand.Text())
}

// addTools adds the tools. Their names begin with the name of their server.
func addTools(server *toolserver.Server, name string, direct *http.Client) {
	toolserver.Add(server, name+"-work", "Works for a while.", func(ctx context.Context, in work) (string, error) {
		return answer(ctx, "worked"), in.wait(ctx)
	})
	toolserver.Add(server, name+"-fail", "Fails.", func(ctx context.Context, in work) (string, error) {
		return "", errors.Join(in.wait(ctx), errors.New(answer(ctx, "failed")))
	})
	toolserver.Add(server, name+"-thrice", "Has its result posted three times, each another one.", func(ctx context.Context, in work) (string, error) {
		for range 2 {
			if err := postResult(ctx, direct, answer(ctx, "posted")); err != nil {
				return "", err
			}
		}
		return answer(ctx, "posted"), in.wait(ctx)
	})
	toolserver.Add(server, name+"-choose", "Asks the user.", func(ctx context.Context, _ work) (string, error) {
		i, err := toolserver.Choose(ctx, "What would you like?", offered, 0)
		if err != nil {
			return "", err
		}
		return answer(ctx, offered[i]), nil
	})
	toolserver.AddWithOptions(server, name+"-private", "Needs an authorization.", toolserver.ToolOptions{RequireOAuth: "idp"},
		func(ctx context.Context, in work) (string, error) { return answer(ctx, "authorized"), in.wait(ctx) })
	toolserver.Add(server, name+"-mute", "Says nothing, ever.", func(ctx context.Context, _ work) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	toolserver.AddSubscription(server, name+"-count", "Counts.", toolserver.ToolOptions{},
		func(ctx context.Context, _ work) (string, *place, error) {
			return answer(ctx, "counting"), &place{1}, nil
		},
		func(ctx context.Context, sub *toolserver.Subscription[place]) error {
			in, err := toolserver.Arguments[work](ctx)
			for n := sub.State().Next; err == nil && n <= countTo; n++ {
				if err = in.wait(ctx); err == nil {
					err = sub.Send(ctx, toolserver.Event{Text: fmt.Sprint(n), Inline: true, Final: n == countTo}, place{n + 1})
				}
			}
			return err
		})
}

// postResult posts a result directly, because the server would post only one. A refused
// post is not an error: the server's own result will be accepted.
func postResult(ctx context.Context, client *http.Client, text string) error {
	inv := toolserver.Invocation(ctx)
	body, err := agentproto.Encode(&agentproto.ToolResult{GroupID: inv.GroupID, ID: inv.ID, CallID: inv.CallID, Text: &text})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, inv.CallbackURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if resp, err := client.Do(req); err == nil {
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return ctx.Err()
}

// A witness records each callback that is answered 200, before the tool server knows.
type witness struct {
	book *notebook
	http.RoundTripper
}

func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body.Close()
	out := r.Clone(r.Context())
	out.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := w.RoundTripper.RoundTrip(out)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	msg, err := agentproto.DecodeCallback(body, agentproto.Limits{})
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	switch m := msg.(type) {
	case *agentproto.ToolResult:
		w.book.write(note{What: "ok", Type: "result", Thread: m.GroupID, Call: m.ID, Text: m.String()})
	case *agentproto.SubscriptionEvent:
		w.book.write(note{What: "ok", Type: "event", Thread: m.GroupID, Call: m.ToolCallID, Text: m.Text})
	case *agentproto.UserChoice:
		w.book.write(note{What: "ok", Type: "choice", Thread: m.GroupID, Call: m.ID})
	case *agentproto.OAuth:
		w.book.write(note{What: "ok", Type: "oauth", Thread: m.GroupID, Call: m.ID})
	}
	return resp, nil
}
