package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/sashabaranov/go-openai"

	"github.com/millrace/millrace/agentproto/conversation"
)

// Options are the settings of a [Model]. Name is required.
type Options struct {
	// Name is the model's, such as gpt-5.
	Name string
	// BaseURL is where the service is. Empty means https://api.openai.com/v1; many other
	// services, and servers for models of one's own, understand the same requests.
	BaseURL string
	// Key is the secret of the account. It goes into the requests and nowhere else.
	Key string
	// HTTP is what the requests are made with. Nil means http.DefaultClient.
	HTTP *http.Client

	// Start is how long the service may take until the first part of its answer, and
	// Stall how long from one part to the next. Zero means 60 s and 120 s (protocol
	// part 4).
	Start, Stall time.Duration
	// MaxTokens is how long an answer may be. Zero leaves that to the service.
	MaxTokens int64
}

// A Model is a model behind an HTTP service. It may be used by any number of goroutines.
type Model struct{ opts Options }

// New returns a model. It panics without a name. Nothing is read from the environment but
// what the HTTP client does.
func New(opts Options) *Model {
	if opts.Name == "" {
		panic("openai: New: a model needs a name")
	}
	opts.Start = cmp.Or(opts.Start, 60*time.Second)
	opts.Stall = cmp.Or(opts.Stall, 120*time.Second)
	opts.HTTP = cmp.Or(opts.HTTP, http.DefaultClient)
	return &Model{opts}
}

// errSlow says that the service took too long.
var errSlow = errors.New("the model's service does not answer")

// Reply asks the model. An answer that breaks off is a failure as a whole.
func (m *Model) Reply(ctx context.Context, r *conversation.Request) (*conversation.Reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(m.opts.Start, func() { cancel(errSlow) })
	defer watch.Stop()

	config := openai.DefaultConfig(m.opts.Key)
	config.BaseURL = cmp.Or(m.opts.BaseURL, config.BaseURL)
	last := &lastAnswer{client: m.opts.HTTP}
	config.HTTPClient = last
	stream, err := openai.NewClientWithConfig(config).CreateChatCompletionStream(ctx, m.params(r))
	if err != nil {
		return nil, failure(ctx, err, last.header)
	}
	defer stream.Close()
	var answer answer
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return answer.reply()
		}
		if err != nil {
			return nil, failure(ctx, err, last.header)
		}
		watch.Reset(m.opts.Stall)
		if err := answer.add(&part); err != nil {
			return nil, err
		}
	}
}

// A lastAnswer is an HTTP client that keeps the header of the answer.
type lastAnswer struct {
	client *http.Client
	header http.Header
}

// Do makes a request.
func (l *lastAnswer) Do(r *http.Request) (*http.Response, error) {
	resp, err := l.client.Do(r)
	if err == nil {
		l.header = resp.Header
	}
	return resp, err
}

// failure says what went wrong, in words without secrets, and whether to ask again.
func failure(ctx context.Context, err error, header http.Header) error {
	if errors.Is(context.Cause(ctx), errSlow) {
		return errSlow
	}
	refused, ok := errors.AsType[*openai.APIError](err)
	if unread, is := errors.AsType[*openai.RequestError](err); is && !ok && unread.HTTPStatusCode >= 400 {
		refused, ok = &openai.APIError{HTTPStatusCode: unread.HTTPStatusCode, Message: "without words"}, true
	}
	if !ok {
		return fmt.Errorf("the model's service cannot be reached or broke off: %w", cause(err))
	}
	said := fmt.Errorf("the model's service answered %d: %.200s", refused.HTTPStatusCode, refused.Message)
	switch {
	case refused.HTTPStatusCode == http.StatusUnauthorized, refused.HTTPStatusCode == http.StatusForbidden:
		// What it says may repeat the key.
		return conversation.Permanent(fmt.Errorf("the model's service answered %d: the key is not accepted", refused.HTTPStatusCode))
	case refused.Code == "insufficient_quota":
		return conversation.Permanent(said)
	case refused.HTTPStatusCode == http.StatusTooManyRequests:
		return &conversation.RetryError{Err: said, After: after(header)}
	case refused.HTTPStatusCode == http.StatusRequestTimeout, refused.HTTPStatusCode == http.StatusConflict, refused.HTTPStatusCode >= 500:
		return said
	}
	return conversation.Permanent(said)
}

// after returns when to ask again: what the service says, up to five minutes, else 30 s
// (protocol part 4).
func after(header http.Header) time.Duration {
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil && seconds >= 0 {
		return min(time.Duration(seconds)*time.Second, 5*time.Minute)
	}
	return 30 * time.Second
}

// cause returns an error of the HTTP client without the URL.
func cause(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err
}
