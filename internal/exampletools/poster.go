package exampletools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
	"github.com/millrace/millrace/internal/edge"
)

// A poster posts results directly, while the tool server would post only one.
// It is for the tools that show what a runtime has to tolerate.
type poster struct{ client *edge.Client }

func newPoster(opts toolserver.Options) poster {
	transport := opts.CallbackTransport
	if transport == nil {
		// No proxy: the environment must not decide where callbacks go.
		transport = edge.Outbound{Dial: new(net.Dialer).DialContext}.Transport()
	}
	return poster{edge.NewClient(transport)}
}

// result posts one result of the call.
func (p poster) result(ctx context.Context, inv *agentproto.Invocation, text string) error {
	body, err := agentproto.Encode(&agentproto.ToolResult{GroupID: inv.GroupID, ID: inv.ID, CallID: inv.CallID, Text: &text})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, inv.CallbackURL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the callback_url cannot be used")
	}
	req.Header.Set("Content-Type", "application/json")
	switch a, err := p.client.Do(req, 0); {
	case err != nil:
		return errors.New("the result could not be posted") // the transport's error may contain the callback_url
	case !a.OK():
		return fmt.Errorf("the result was answered %d", a.Status)
	}
	return nil
}
