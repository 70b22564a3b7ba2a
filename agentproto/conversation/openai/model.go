package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

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
type Model struct {
	opts        Options
	completions openai.ChatCompletionService
}

// New returns a model. It panics without a name. Nothing is read from the environment but
// what the HTTP client does.
func New(opts Options) *Model {
	if opts.Name == "" {
		panic("openai: New: a model needs a name")
	}
	opts.Start = cmp.Or(opts.Start, 60*time.Second)
	opts.Stall = cmp.Or(opts.Stall, 120*time.Second)
	request := []option.RequestOption{
		option.WithBaseURL(cmp.Or(opts.BaseURL, "https://api.openai.com/v1")),
		option.WithHTTPClient(cmp.Or(opts.HTTP, http.DefaultClient)),
		option.WithMaxRetries(0), // whoever asks knows when to ask again
	}
	if opts.Key != "" {
		request = append(request, option.WithAPIKey(opts.Key))
	}
	return &Model{opts, openai.NewChatCompletionService(request...)}
}

// errSlow says that the service took too long.
var errSlow = errors.New("the model's service does not answer")

// Reply asks the model. An answer that breaks off is a failure as a whole.
func (m *Model) Reply(ctx context.Context, r *conversation.Request) (*conversation.Reply, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(m.opts.Start, func() { cancel(errSlow) })
	defer watch.Stop()

	stream := m.completions.NewStreaming(ctx, m.params(r))
	defer stream.Close()
	var answer openai.ChatCompletionAccumulator
	for stream.Next() {
		watch.Reset(m.opts.Stall)
		if !answer.AddChunk(stream.Current()) {
			return nil, errors.New("the model's service sent an answer whose parts do not fit together")
		}
	}
	if err := stream.Err(); err != nil {
		return nil, failure(ctx, err)
	}
	if len(answer.Choices) == 0 || answer.Choices[0].FinishReason == "" {
		return nil, errors.New("the model's service broke off its answer")
	}
	message := answer.Choices[0].Message
	reply := &conversation.Reply{Text: cmp.Or(message.Content, message.Refusal)}
	for _, c := range message.ToolCalls {
		reply.Calls = append(reply.Calls, conversation.Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return reply, nil
}

// failure says what went wrong, in words without secrets, and whether to ask again.
func failure(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSlow) {
		return errSlow
	}
	refused, ok := errors.AsType[*openai.Error](err)
	if !ok {
		return fmt.Errorf("the model's service cannot be reached or broke off: %w", cause(err))
	}
	said := fmt.Errorf("the model's service answered %d: %.200s", refused.StatusCode, refused.Message)
	switch {
	case refused.StatusCode == http.StatusUnauthorized, refused.StatusCode == http.StatusForbidden:
		// What it says may repeat the key.
		return conversation.Permanent(fmt.Errorf("the model's service answered %d: the key is not accepted", refused.StatusCode))
	case refused.Code == "insufficient_quota":
		return conversation.Permanent(said)
	case refused.StatusCode == http.StatusTooManyRequests:
		return &conversation.RetryError{Err: said, After: after(refused.Response)}
	case refused.StatusCode == http.StatusRequestTimeout, refused.StatusCode == http.StatusConflict, refused.StatusCode >= 500:
		return said
	}
	return conversation.Permanent(said)
}

// after returns when to ask again: what the service says, up to five minutes, else 30 s
// (protocol part 4).
func after(r *http.Response) time.Duration {
	if r != nil {
		if seconds, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && seconds >= 0 {
			return min(time.Duration(seconds)*time.Second, 5*time.Minute)
		}
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
