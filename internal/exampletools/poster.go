package exampletools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// A poster posts results past the tool server, which would post only one. It is
// for the tools that show what a runtime has to put up with.
type poster struct{ client *http.Client }

func newPoster(opts toolserver.Options) poster {
	transport := opts.CallbackTransport
	if transport == nil {
		// No proxy: where callbacks go is no business of the environment.
		transport = &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: 30 * time.Second}
	}
	return poster{&http.Client{
		Transport:     transport,
		Timeout:       15 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// result posts a result of the call, once.
func (p poster) result(ctx context.Context, inv *agentproto.Invocation, text string) error {
	body, err := agentproto.Encode(&agentproto.ToolResult{GroupID: inv.GroupID, ID: inv.ID, CallID: inv.CallID, Text: &text})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, inv.CallbackURL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the callback_url cannot be used")
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return errors.New("the result could not be posted") // the error itself tells the callback_url
	}
	defer resp.Body.Close()
	io.CopyN(io.Discard, resp.Body, 64<<10)
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the result was answered %d", resp.StatusCode)
	}
	return nil
}
