package openai

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
)

// Options are the settings of a [Model]. Name is required.
type Options struct {
	// Name is the name of the model, such as gpt-5.
	Name string
	// BaseURL is the URL of the service. Empty means https://api.openai.com/v1; many other services and self-hosted model servers
	// accept the same requests. A query in the URL is kept.
	BaseURL string
	// Key is the secret of the account. It is sent in the requests and used nowhere else. Empty means that no key is sent.
	Key string
	// HTTP is the client for the requests. Nil means http.DefaultClient, except that it does not follow redirects: the target of one
	// would get the conversation, and on the same host the key, perhaps without encryption.
	HTTP *http.Client

	// Start is how long the service may take until the first part of its answer, and Stall how long between two parts. Comments
	// and blank lines are not parts. Zero means 60 s and 120 s.
	Start, Stall time.Duration
	// MaxTokens is the maximum length of an answer. Zero leaves it to the service.
	MaxTokens int64
}

// A Model is a model behind an HTTP service. It is safe for concurrent use.
type Model struct {
	opts     Options
	noCounts atomic.Bool // the service refuses requests that ask it to count
}

// New returns a model. It panics without a name. It reads nothing from the environment, except what the HTTP client reads.
func New(opts Options) *Model {
	if opts.Name == "" {
		panic("openai: New: a model needs a name")
	}
	opts.BaseURL = cmp.Or(opts.BaseURL, "https://api.openai.com/v1")
	opts.Start = cmp.Or(opts.Start, 60*time.Second)
	opts.Stall = cmp.Or(opts.Stall, 120*time.Second)
	if opts.HTTP == nil {
		client := *http.DefaultClient
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		opts.HTTP = &client
	}
	return &Model{opts: opts}
}

// errSlow says that the service took too long.
var errSlow = errors.New("the model's service does not answer")

// Reply asks the model. An answer that breaks off is an error as a whole. For a response that is no answer, and for an error that
// asking again cannot change, [conversation.IsPermanent] is true.
func (m *Model) Reply(ctx context.Context, r *conversation.Request) (*conversation.Reply, error) {
	return m.Stream(ctx, r, func(conversation.Delta) {})
}

// Stream is like Reply and also reports the parts of the reply: see [conversation.Streamer].
func (m *Model) Stream(ctx context.Context, r *conversation.Request, write func(conversation.Delta)) (*conversation.Reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(m.opts.Start, func() { cancel(errSlow) })
	defer watch.Stop()

	progress := func() { watch.Reset(m.opts.Stall) }
	reply, err := m.ask(ctx, r, progress, write)
	if errors.Is(err, errNoCounts) {
		m.noCounts.Store(true)
		reply, err = m.ask(ctx, r, progress, write)
	}
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		return nil, errSlow
	}
	return reply, err
}

// errNoCounts says that the service refuses a request that asks it to count tokens.
var errNoCounts = errors.New("the model's service does not count tokens")

// ask makes the request and reads the answer. It calls progress for each part, and write with what is new in it.
func (m *Model) ask(ctx context.Context, r *conversation.Request, progress func(), write func(conversation.Delta)) (*conversation.Reply, error) {
	at, err := url.Parse(m.opts.BaseURL)
	if err != nil {
		return nil, conversation.Permanent(fmt.Errorf("the URL of the model's service cannot be used: %w", cause(err)))
	}
	body, err := m.body(r)
	if err != nil {
		return nil, conversation.Permanent(fmt.Errorf("the request to the model's service cannot be written: %w", err))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.JoinPath("chat/completions").String(), bytes.NewReader(body))
	if err != nil {
		return nil, conversation.Permanent(fmt.Errorf("the URL of the model's service cannot be used: %w", cause(err)))
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json;q=0.9")
	if m.opts.Key != "" {
		req.Header.Set("Authorization", "Bearer "+m.opts.Key)
	}
	resp, err := m.opts.HTTP.Do(req)
	if err != nil {
		return nil, brokenOff(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, m.refused(resp)
	}
	names := make([]string, len(r.Tools))
	for i := range r.Tools {
		names[i] = r.Tools[i].Name
	}
	a := answer{tools: names}
	err = a.read(resp, progress, func() { a.report(write) })
	if failed, ok := errors.AsType[*reported](err); ok {
		return nil, m.failure(failed, resp.Header)
	}
	if err != nil {
		return nil, err
	}
	return a.reply()
}
