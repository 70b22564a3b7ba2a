package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/internal/panics"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/netguard"
)

// keyHeader is the header of draft-ietf-httpapi-idempotency-key-header.
const keyHeader = "Idempotency-Key"

const (
	// mostAnswer is how many bytes of an answer are read, and mostTold how many of them a [Refusal] contains.
	mostAnswer = 64 << 10
	mostTold   = 4 << 10
)

// pauses are the pauses before an element is sent again.
var pauses = edge.Curve{First: []time.Duration{100 * time.Millisecond}, Most: 30 * time.Second}

// A writer posts the elements of one lane.
type writer[T any] struct {
	s       Sink[T]
	lane    connect.Lane
	url     string
	signers []*standardwebhooks.Webhook
	client  *edge.Client
}

// Format prints the writer without secrets.
func (w *writer[T]) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "%v of lane %s", w.s, w.lane) }

// Write posts the elements and returns when each was accepted or refused. With one request at a time it keeps their order.
func (w *writer[T]) Write(ctx context.Context, first uint64, xs []T) (e connect.Idempotent, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	next := make(chan int)
	for range min(w.s.Parallel, len(xs)) {
		group.Go(func() {
			number, err := first, error(nil)
			defer func() { // also if deliver does not return
				if err != nil {
					cancel(fmt.Errorf("webhook: lane %s: element %d: %w", w.lane, number, err))
				}
			}()
			for i := range next {
				number, err = first+uint64(i), panics.ErrGoexit
				if err = w.deliver(ctx, number, xs[i]); err != nil {
					return
				}
			}
		})
	}
send:
	for i := range xs {
		select {
		case next <- i:
		case <-ctx.Done():
			break send
		}
	}
	close(next)
	group.Wait()
	return e, context.Cause(ctx)
}

// deliver posts an element until it is accepted or refused.
func (w *writer[T]) deliver(ctx context.Context, number uint64, x T) (err error) {
	defer panics.Catch("delivering it", &err)
	body, err := w.s.Encode(number, x)
	if err != nil {
		return fmt.Errorf("encoding it: %w", err)
	}
	if len(body) > w.s.MaxBody {
		return w.refuse(ctx, Refusal[T]{Number: number, Element: x}, fmt.Errorf("its body has %d bytes, and Sink.MaxBody is %d", len(body), w.s.MaxBody))
	}
	for begun, failed := time.Now(), 1; ; failed++ {
		answer, err := w.post(ctx, number, body)
		var wait time.Duration
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, netguard.ErrBlocked):
			return err
		case err != nil:
		case answer.OK():
			return nil
		case again(answer):
			wait = answer.RetryAfter
			err = fmt.Errorf("%s answers %d", place(w.s.URL), answer.Status)
		case answer.Status >= 400:
			told := strings.ToValidUTF8(string(answer.Body[:min(len(answer.Body), mostTold)]), "\uFFFD")
			return w.refuse(ctx, Refusal[T]{Number: number, Element: x, Status: answer.Status, Answer: told}, fmt.Errorf("%s answers %d", place(w.s.URL), answer.Status))
		default:
			return fmt.Errorf("%s answers %d, and redirects are not followed", place(w.s.URL), answer.Status)
		}
		if time.Since(begun)+wait > w.s.Patience {
			return connect.RetryAfter(err, wait)
		}
		if !pauses.Wait(ctx, failed, wait, nil) {
			return connect.Retry(err)
		}
	}
}

// again reports whether the receiver may accept the same request later. A 409 with a Retry-After says that a request with the key
// is in progress.
func again(a *edge.Answer) bool {
	switch a.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusConflict:
		return a.RetryAfter > 0
	}
	return a.Status >= 500
}

// refuse reports an element that was refused.
func (w *writer[T]) refuse(ctx context.Context, r Refusal[T], why error) error {
	if w.s.Refused == nil {
		return fmt.Errorf("refused: %w", why)
	}
	r.Lane = w.lane
	return w.s.Refused(ctx, r)
}

// post sends an element once.
func (w *writer[T]) post(ctx context.Context, number uint64, body []byte) (*edge.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, w.s.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the request cannot be made") // not err, which contains the URL
	}
	// If a kept connection has ended, the transport itself repeats a request that has a key. The repeated request has the same
	// key.
	for name, values := range w.s.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	key := keyOf(w.lane, number)
	r.Header.Set("Content-Type", w.s.ContentType)
	r.Header.Set(keyHeader, key)
	return w.send(r, key, body)
}

// send signs a request and sends it.
func (w *writer[T]) send(r *http.Request, key string, body []byte) (*edge.Answer, error) {
	if len(w.signers) > 0 {
		now := time.Now()
		var all []string
		for _, s := range w.signers {
			signature, err := s.Sign(key, now, body)
			if err != nil {
				return nil, errors.New("the request cannot be signed")
			}
			all = append(all, signature)
		}
		r.Header.Set(standardwebhooks.HeaderWebhookID, key)
		r.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
		r.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(all, " "))
	}
	return w.client.Do(r, mostAnswer)
}

// keyOf returns the key of an element, which is different for every element. Signed text has dots between its parts, so a key
// contains none.
func keyOf(l connect.Lane, number uint64) string {
	escape := func(name string) string { return strings.ReplaceAll(url.PathEscape(name), ".", "%2E") }
	return fmt.Sprintf("%s/%s/%d/%d", escape(l.Flow), escape(l.Output), l.Partition, number)
}

// Close closes idle connections.
func (w *writer[T]) Close() error {
	w.client.CloseIdle()
	return nil
}
