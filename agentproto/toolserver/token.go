package toolserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/millrace/millrace/internal/edge"
)

// Token returns the access token of the user that a tool function is running for, renewed if it has
// expired. It returns [ErrUnauthorized] if the token could not be renewed; if the function returns
// this error, the user is asked again. Token panics if the tool was added without RequireOAuth.
func Token(ctx context.Context) (Secret, error) {
	c := callOf(ctx, "Token")
	if c.tool.need.provider == nil {
		panic("toolserver: Token: the tool was added without RequireOAuth")
	}
	t, err := c.tokenFor(ctx, c.tool.need)
	if err != nil {
		return Secret{}, err
	}
	return NewSecret(t.Access), nil
}

// Client returns an HTTP client that adds the access token of [Token] to every request. Requests
// must be https, or go to this machine. They end with ctx, whatever their own context is. A 401
// answer becomes the error [ErrUnauthorized]. A redirect to another origin is an error, since the
// token is not meant for it. Client panics if the tool was added without RequireOAuth.
func Client(ctx context.Context) *http.Client {
	c := callOf(ctx, "Client")
	if c.tool.need.provider == nil {
		panic("toolserver: Client: the tool was added without RequireOAuth")
	}
	client := edge.NewClient(&bearer{ctx: ctx, base: c.server.opts.ProviderTransport}).Standard(0, 0)
	client.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if origin(r.URL) != origin(via[0].URL) || len(via) >= 10 {
			return errors.New("toolserver: redirect refused")
		}
		return nil
	}
	return client
}

// A bearer is a transport that adds the token to requests.
type bearer struct {
	ctx  context.Context // of the tool function
	base http.RoundTripper
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	var t Secret
	err := protected(r.URL)
	if err == nil {
		t, err = Token(b.ctx)
	}
	if err != nil {
		if r.Body != nil {
			r.Body.Close() // also on errors: a function may be writing to the other end of a pipe
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	release := context.AfterFunc(b.ctx, func() { cancel(context.Cause(b.ctx)) })
	r = r.Clone(ctx)
	r.Header.Set("Authorization", "Bearer "+t.Reveal())
	resp, err := b.base.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		resp.Body.Close()
		err = ErrUnauthorized
	}
	if err != nil {
		release()
		cancel(nil)
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols { // that body can be written to
		resp.Body = &boundBody{resp.Body, func() { release(); cancel(nil) }}
	}
	return resp, nil
}

// A boundBody is the body of an answer, which can be read until it is closed or the function has ended.
type boundBody struct {
	io.ReadCloser
	release func()
}

// Close implements [io.Closer].
func (b *boundBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// protected returns an error if a token sent to u could be read by others.
func protected(u *url.URL) error {
	if u.Scheme != "https" && !isLoopback(u) {
		return errors.New("toolserver: an access token is sent over https only")
	}
	return nil
}
