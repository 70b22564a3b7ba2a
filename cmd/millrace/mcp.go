package main

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
	"github.com/millrace/millrace/internal/edge"
)

const mcpUsage = `usage: millrace mcp --api URL --token-file FILE [flags]
       millrace mcp --state DIR [flags] -- [flags of serve]

Offers the tools of a runtime to a client of MCP, the Model Context Protocol, that starts this command and speaks with it on
standard input and output. The runtime is 'millrace serve', at --api; clients that speak HTTP find the same at URL/mcp. A client
is configured like this:

  {"mcpServers": {"millrace": {"command": "millrace", "args": ["mcp", "--api", "http://127.0.0.1:7341", "--token-file", "DIR/api.token"]}}}

With -- the runtime is in this process, too, and ends with it: what stands behind are flags of 'millrace serve', such as --tool URL. Its
--state is that of this command. If another process has the folder, that is said, and this ends with 2.

Nothing is kept here: a task that a client was told of is a call of the runtime, and is found again after this command or the
runtime was killed.

`

// mcpFront is the command that serves MCP on standard input and output, over the API of a runtime.
func mcpFront(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("mcp", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), mcpUsage); fs.PrintDefaults() }
	address := fs.String("api", "http://127.0.0.1:7341", "`URL` of the API of the runtime")
	tokenFile := fs.String("token-file", "", "`file` with the token of the API")
	state := fs.String("state", "", "`folder` of the runtime, where the token is, in place of --token-file")
	owner := fs.String("owner", "local", "`name` of the client: clients with different names do not see each other's tasks")
	if err := parse(fs, args); err != nil {
		return err
	}
	inside := slices.Contains(args[:len(args)-fs.NArg()], "--")
	switch {
	case fs.NArg() > 0 && !inside:
		return misused(fs, "what is %s?", fs.Arg(0))
	case inside && *state == "":
		return misused(fs, "a runtime in this process needs a --state folder")
	case *tokenFile == "" && *state == "":
		return misused(fs, "no --token-file, and no --state folder with one")
	case *owner == "":
		return misused(fs, "--owner is empty")
	}
	if inside {
		return mcpInside(ctx, *state, *owner, fs.Args())
	}
	token, err := findToken(*tokenFile, *state)
	if err != nil {
		return err
	}
	client := apiClient{base: *address, token: token}
	if err := checkToken(ctx, client); err != nil {
		return err
	}
	return speakMCP(ctx, client, *owner)
}

// tokenCheck is how long the check of the token may take. The runtime may start after this command.
const tokenCheck = 2 * time.Second

// checkToken returns an error if the runtime does not accept the token. It returns none if the runtime cannot be asked: then the
// first request waits for the runtime.
func checkToken(ctx context.Context, client apiClient) error {
	ctx, cancel := context.WithTimeout(ctx, tokenCheck)
	defer cancel()
	status, text, err := client.do(ctx, http.MethodGet, "/calls?limit=1", nil)
	if err == nil && status == http.StatusUnauthorized {
		return fmt.Errorf("%s: %w", client.base, apiError(status, text))
	}
	return nil
}

// speakMCP serves MCP on standard input and output, over an API, until the input or ctx ends.
func speakMCP(ctx context.Context, client apiClient, owner string) error {
	sealer, err := taskSealer([]byte(client.token))
	if err != nil {
		return err
	}
	server, err := mcpserver.New(mcpserver.Options{
		Calls: apiCalls{client}, Sealer: sealer,
		Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	err = server.ServeStdio(ctx, mcpserver.Owner{Name: owner}, os.Stdin, writeCloser{stdout})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// A writeCloser is a writer whose Close does nothing.
type writeCloser struct{ io.Writer }

func (writeCloser) Close() error { return nil }

// taskSealer returns the sealer of task IDs. Its key is derived from a secret; the secret cannot be found from the key.
func taskSealer(secret []byte) (host.Sealer, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "millrace mcp tasks", 32)
	if err != nil {
		return nil, err
	}
	return host.SealerOf([32]byte(key))
}

// mcpAt returns the MCP server that serve offers at its API, which checks the token. All clients with the operator's token are
// one owner.
func mcpAt(rt *host.Runtime, secret [32]byte, hosts []string, logger *slog.Logger) (*mcpserver.Server, error) {
	sealer, err := taskSealer(secret[:])
	if err != nil {
		return nil, err
	}
	return mcpserver.New(mcpserver.Options{
		Calls: mcpserver.Of(rt), Sealer: sealer, Hosts: hosts, Logger: logger,
		Owner: func(r *http.Request) (mcpserver.Owner, error) {
			if b := bearerOf(r); b != nil {
				return mcpserver.Owner{Name: b.owner, UserID: b.user}, nil
			}
			return mcpserver.Owner{Name: operatorName}, nil
		},
		Thread: mcpThread,
	})
}

// mcpThread returns the thread of the tasks of an owner. Owners of tokens see it under the name mcp.
func mcpThread(owner string) string {
	if owner == operatorName {
		return ""
	}
	return (&bearer{owner: owner}).thread("mcp")
}

// apiCalls are the calls of a runtime over its API. While the runtime restarts, they wait for it.
type apiCalls struct{ client apiClient }

// How long a request waits for a runtime that does not answer, how often it tries, and how long one request for a change waits.
const (
	awaitRuntime   = 20 * time.Second
	lookForRuntime = 50 * time.Millisecond
	eachWait       = 30 * time.Second
)

// do makes a request that may be repeated, and decodes the answer if its status is below 300.
func (c apiCalls) do(ctx context.Context, method, path string, body, into any) error {
	end := time.Now().Add(awaitRuntime)
	for {
		status, text, err := c.client.do(ctx, method, path, body)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && status < 300:
			if into == nil {
				return nil
			}
			return json.Unmarshal(text, into)
		case err == nil && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests:
			return apiError(status, text)
		case time.Now().After(end) && err == nil:
			return apiError(status, text)
		case time.Now().After(end):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookForRuntime):
		}
	}
}

// apiError converts an answer to an error of package host.
func apiError(status int, text []byte) error {
	said := errors.New(problemIn(status, text))
	switch status {
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", host.ErrUnknownCall, said)
	case http.StatusConflict:
		return fmt.Errorf("%w: %w", host.ErrDuplicateCall, said)
	case http.StatusGone:
		return fmt.Errorf("%w: %w", host.ErrElsewhere, said)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return fmt.Errorf("%w: %w", host.ErrFull, said)
	case http.StatusUnauthorized:
		return fmt.Errorf("the runtime does not accept the token: %w: give the token of that runtime with --token-file or --state", said)
	case http.StatusForbidden:
		return fmt.Errorf("the runtime refuses the request: %w", said)
	}
	return said
}

// callPath returns the path of a call.
func callPath(key agentproto.CallKey) string {
	return "/calls/" + edge.Segment(key.GroupID) + "/" + edge.Segment(key.ID)
}

// Tools returns the tools that a thread is offered.
func (c apiCalls) Tools(ctx context.Context, thread string) ([]host.Tool, error) {
	var all []toolBody
	if err := c.do(ctx, http.MethodGet, "/threads/"+edge.Segment(thread)+"/tools", nil, &all); err != nil {
		return nil, err
	}
	tools := make([]host.Tool, 0, len(all))
	for _, t := range all {
		tools = append(tools, host.Tool{Server: t.Toolset, Tool: agentproto.Tool{
			Name: t.Name, Description: t.Description, InputSchema: t.InputSchema, Annotations: t.Annotations,
		}})
	}
	return tools, nil
}

// Call makes a call. It chooses the identifier itself, so that a request whose answer was lost can be repeated: if the repeated
// request is answered that the call exists, it is this one.
func (c apiCalls) Call(ctx context.Context, req host.Request) (agentproto.CallKey, error) {
	given := req.ID != ""
	if !given {
		req.ID = newToken()
	}
	key := agentproto.CallKey{GroupID: req.GroupID, ID: req.ID}
	arguments := req.Arguments
	if arguments == nil {
		arguments = jsontext.Value("{}")
	}
	err := c.do(ctx, http.MethodPost, "/calls", callLine{
		GroupID: req.GroupID, ID: req.ID, Operation: req.Operation, UserID: req.UserID, Arguments: arguments,
	}, nil)
	if errors.Is(err, host.ErrDuplicateCall) && !given {
		err = nil
	}
	return key, err
}

// Describe returns the state of a call.
func (c apiCalls) Describe(ctx context.Context, key agentproto.CallKey) (host.Description, error) {
	var s stateBody
	if err := c.do(ctx, http.MethodGet, callPath(key)+"/state", nil, &s); err != nil {
		return host.Description{Key: key}, err
	}
	return descriptionOf(key, s), nil
}

// Changed returns the state of a call when its version is greater than after.
func (c apiCalls) Changed(ctx context.Context, key agentproto.CallKey, after uint64) (host.Description, error) {
	return c.await(ctx, key, after, "", func(host.Description) bool { return false })
}

// Progressed returns the state of a call when its version is greater than after, or when the number of its progress differs
// from said.
func (c apiCalls) Progressed(ctx context.Context, key agentproto.CallKey, after, said uint64) (host.Description, error) {
	return c.await(ctx, key, after, "&progress="+strconv.FormatUint(said, 10), func(d host.Description) bool {
		return d.Progress != nil && d.Progress.Number != said
	})
}

// await returns the state of a call when its version is greater than after, or when something else has changed for which the
// parameters in more ask.
func (c apiCalls) await(ctx context.Context, key agentproto.CallKey, after uint64, more string, changed func(host.Description) bool) (host.Description, error) {
	query := "/state?wait=" + eachWait.String() + "&after=" + strconv.FormatUint(after, 10) + more
	for {
		var s stateBody
		err := c.do(ctx, http.MethodGet, callPath(key)+query, nil, &s)
		if d := descriptionOf(key, s); err != nil || d.Version > after || changed(d) {
			return d, err
		}
	}
}

// descriptionOf converts the state in the format of the API.
func descriptionOf(key agentproto.CallKey, s stateBody) host.Description {
	d := host.Description{Key: key, Operation: s.Operation, Toolset: s.Toolset, Version: s.Version, Created: s.Created, Changed: s.Changed}
	for _, state := range []agentproto.State{agentproto.Pending, agentproto.OAuthPending, agentproto.ChoicePending, agentproto.Completed} {
		if state.String() == s.State {
			d.State = state
		}
	}
	if p := s.Prompt; p != nil {
		d.Prompt = &host.CallPrompt{Number: p.Number, Since: p.Since}
		if p.AuthURL != "" {
			d.Prompt.OAuth = &agentproto.OAuth{GroupID: key.GroupID, ID: key.ID, AuthURL: p.AuthURL}
		} else {
			d.Prompt.Choice = &agentproto.UserChoice{GroupID: key.GroupID, ID: key.ID, Prompt: p.Prompt, Choices: p.Choices, Default: p.Default, Form: p.Form}
			if p.Form != nil {
				if f, err := form.Parse(p.Form); err == nil {
					d.Prompt.Form = *f
				}
			}
		}
	}
	if p := s.Progress; p != nil {
		d.Progress = &host.CallProgress{Progress: p.Progress, Number: p.Number}
	}
	if r := s.Result; r != nil {
		d.Resolution = &agentproto.Resolution{Key: key, Result: &agentproto.ToolResult{GroupID: key.GroupID, ID: key.ID, Text: r.Text, Content: r.Content, Subscription: r.Subscription}}
		for cause := agentproto.ByResult; cause <= agentproto.ByRefusal; cause++ {
			if cause.String() == r.Cause {
				d.Resolution.Cause = cause
			}
		}
	}
	return d
}

// AnswerPrompt answers a prompt of a call.
func (c apiCalls) AnswerPrompt(ctx context.Context, key agentproto.CallKey, number, selected int) error {
	given := callAnswer{Prompt: number}
	if selected != host.Dismiss {
		given.Selected = &selected
	}
	return c.do(ctx, http.MethodPost, callPath(key)+"/answers", given, nil)
}

// AnswerForm fills in questions of the form of a prompt.
func (c apiCalls) AnswerForm(ctx context.Context, key agentproto.CallKey, number int, values map[string]jsontext.Value) error {
	filled, err := form.Filled(values)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPost, callPath(key)+"/answers", callAnswer{Prompt: number, Values: filled}, nil)
}

// Cancel cancels a call.
func (c apiCalls) Cancel(ctx context.Context, key agentproto.CallKey) error {
	return c.do(ctx, http.MethodDelete, callPath(key), nil, nil)
}
