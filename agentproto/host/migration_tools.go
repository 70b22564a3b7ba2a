package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
)

// moveTool has a tool server hand the state of a session to the instance of the same
// server at another base URL. It returns when that serves the session. It is asked once:
// a server to which it is not known what became of it is asked again by who migrates.
//
// The request is signed as for s, which is the server or the other instance of it.
func (rt *Runtime) moveTool(ctx context.Context, s *server, base, session, to string) error {
	body, err := agentproto.Encode(&agentproto.Migrate{SessionID: session, DestinationURL: to})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, rt.opts.Timeouts.Migrate)
	defer cancel()
	const path = "/migrate"
	a, err := rt.post(ctx, s, base+path, freshID(purpose.Migrate), body, maxReply)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("/migrate took more than %v", rt.opts.Timeouts.Migrate)
	case err != nil:
		return fmt.Errorf("/migrate: %w", err)
	}
	if a.Status == http.StatusOK {
		return nil
	}
	return &migrateError{a.Status, strings.TrimSpace(string(a.Body))}
}

// A migrateError is an answer to /migrate that says that the state was not handed over. After
// any other error it may have been.
type migrateError struct {
	status int
	text   string
}

func (e *migrateError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("/migrate was answered %d", e.status)
	}
	return fmt.Sprintf("/migrate was answered %d: %s", e.status, quoted(e.text))
}
