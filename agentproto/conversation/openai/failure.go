package openai

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/conversation"
)

// errLong says that an answer exceeds the limits. Asking again would cost the same again.
var errLong = conversation.Permanent(fmt.Errorf("the model's service sent an answer of more than %d bytes or %d calls", maxSize, maxCalls))

// errBroken says that an answer ended before it was complete.
var errBroken = errors.New("the model's service broke off its answer")

// brokenOff returns the error for a connection that failed.
func brokenOff(err error) error {
	return fmt.Errorf("the model's service cannot be reached or broke off: %w", cause(err))
}

// noAnswer returns the error for a response that is no chat completion.
func noAnswer(resp *http.Response, why string) error {
	return conversation.Permanent(fmt.Errorf("the model's service answered %d with %.100q, which is no chat completion (%s): is its URL right?",
		resp.StatusCode, cmp.Or(resp.Header.Get("Content-Type"), "no Content-Type"), why))
}

// A reported is an error that the service describes, in an error response or in the middle of an answer.
type reported struct {
	status     int    // 0 if unknown
	code, kind string // such as insufficient_quota and invalid_request_error
	words      string
}

// Error returns the words of the service.
func (e *reported) Error() string { return e.words }

// reportedIn reads the description of an error: an object with a message, or a string.
func reportedIn(v jsontext.Value) *reported {
	var object struct {
		Message jsontext.Value `json:"message"`
		Code    jsontext.Value `json:"code"`
		Type    jsontext.Value `json:"type"`
	}
	if v.Kind() != '{' || json.Unmarshal(v, &object, lenient) != nil {
		return &reported{words: cmp.Or(text(v), "without words")}
	}
	e := &reported{code: text(object.Code), kind: text(object.Type), words: cmp.Or(text(object.Message), "without words")}
	if n, err := strconv.Atoi(e.code); err == nil && n >= 400 && n <= 599 {
		e.status = n
	}
	return e
}

// refused reads the body of an unsuccessful response.
func (m *Model) refused(resp *http.Response) error {
	if resp.StatusCode < 400 {
		return conversation.Permanent(fmt.Errorf("the model's service answered %d, which is not followed: is its URL right?", resp.StatusCode))
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		data = nil // the status is enough
	}
	data = bytes.TrimSpace(data)
	var list []jsontext.Value // one service wraps its errors in a list
	if json.Unmarshal(data, &list, lenient) == nil && len(list) > 0 {
		data = list[0]
	}
	var body struct {
		Error jsontext.Value `json:"error"`
	}
	e := &reported{words: "without words"}
	if jsontext.Value(data).Kind() == '{' && json.Unmarshal(data, &body, lenient) == nil {
		e = reportedIn(jsontext.Value(data))
		if present(body.Error) {
			e = reportedIn(body.Error)
		}
	}
	e.status = resp.StatusCode
	if e.status >= 400 && e.status < 500 && !m.noCounts.Load() && (strings.Contains(e.words, "stream_options") || strings.Contains(e.words, "include_usage")) {
		return errNoCounts
	}
	return m.failure(e, resp.Header)
}

// failure returns the error that the service reported, without secrets. The error says whether to ask again.
func (m *Model) failure(e *reported, header http.Header) error {
	named := func(names ...string) bool { return slices.Contains(names, e.code) || slices.Contains(names, e.kind) }
	words := e.words
	if m.opts.Key != "" {
		words = strings.ReplaceAll(words, m.opts.Key, "(the key)")
	}
	said := fmt.Errorf("the model's service reported an error: %.200s", words)
	if e.status != 0 {
		said = fmt.Errorf("the model's service answered %d: %.200s", e.status, words)
	}
	switch {
	case e.status == http.StatusUnauthorized, e.status == http.StatusForbidden,
		e.status == 0 && named("authentication_error", "permission_error", "invalid_api_key"):
		// The service's words may repeat a part of the key.
		return conversation.Permanent(fmt.Errorf("the model's service answered %d: the key is not accepted", cmp.Or(e.status, http.StatusUnauthorized)))
	case named("insufficient_quota"):
		return conversation.Exhausted(said)
	case e.status == http.StatusTooManyRequests, e.status == 0 && named("rate_limit_exceeded", "rate_limit_error", "rate_limit"):
		return &conversation.RetryError{Err: said, After: after(header)}
	case e.status == http.StatusRequestTimeout, e.status == http.StatusConflict, e.status >= 500:
		return said
	case e.status == 0 && !named("invalid_request_error", "context_length_exceeded", "content_policy_violation", "model_not_found"):
		return said // something went wrong while the service was answering
	}
	return conversation.Permanent(said)
}

// after returns how long to wait before asking again: as long as the service says, but at most five minutes, or else 30 s.
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
