package exampletools

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// Slow returns a server of tools that take their time:
//
//	sleep    sleeps, and stops when it is cancelled
//	overdue  sleeps and answers, even if it was cancelled in the meantime
//	mute     never acknowledges a call, if the server is served through [Mute]
//
// Any number of them may run at once, up to opts.MaxCalls. An empty name in the
// options means "slow".
func Slow(opts toolserver.Options) (*toolserver.Server, error) {
	named(&opts, "slow", "Slow tools to try the protocol with.")
	server, err := toolserver.Open(opts)
	if err != nil {
		return nil, err
	}

	type nap struct {
		MS uint32 `json:"ms" jsonschema:"for how many milliseconds"`
	}
	long := toolserver.ToolOptions{Annotations: agentproto.Annotations{ReadOnly: true, Idempotent: true}}
	toolserver.AddWithOptions(server, "sleep", "Sleeps for a while.", long,
		func(ctx context.Context, in nap) (string, error) {
			timer := time.NewTimer(time.Duration(in.MS) * time.Millisecond)
			defer timer.Stop()
			select {
			case <-timer.C:
				return fmt.Sprintf("slept for %d ms", in.MS), nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})

	post := newPoster(opts)
	toolserver.AddWithOptions(server, "overdue", "Answers after a while, even if nobody waits any more.", long,
		func(ctx context.Context, in nap) (string, error) {
			<-time.After(time.Duration(in.MS) * time.Millisecond)
			text := fmt.Sprintf("answered after %d ms", in.MS)
			if ctx.Err() == nil {
				return text, nil
			}
			// The server sends nothing for a cancelled call.
			return "", post.result(context.WithoutCancel(ctx), toolserver.Invocation(ctx), text)
		})

	toolserver.AddWithOptions(server, "mute", "Is never heard of again.", long,
		func(ctx context.Context, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
	return server, nil
}

// maxPeek limits how much of a request Mute reads.
const maxPeek = 1 << 20

// Mute returns a handler that passes requests to server, but keeps an invocation
// of the tool mute open without an answer until the client goes away.
func Mute(server *toolserver.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/invoke" {
			server.ServeHTTP(w, r)
			return
		}
		head, err := io.ReadAll(io.LimitReader(r.Body, maxPeek+1))
		if err != nil {
			http.Error(w, "the body could not be read", http.StatusBadRequest)
			return
		}
		var call struct {
			Operation string `json:"operation"`
		}
		if json.Unmarshal(head, &call) == nil && call.Operation == "mute" {
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // otherwise the server would answer 200
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(head), r.Body), r.Body}
		server.ServeHTTP(w, r)
	})
}
