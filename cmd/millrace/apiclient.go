package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/millrace/millrace/internal/edge"
)

// apiClients makes the requests of all apiClients. The API does not redirect: whoever does is not to
// have the token, and neither is a proxy that the environment names.
var apiClients = edge.NewClient(edge.Outbound{Dial: new(net.Dialer).DialContext}.Transport())

// maxAPIAnswer bounds what is read of an answer.
const maxAPIAnswer = 64 << 20

// An apiClient talks to the API of a runtime, or to what it has without a token.
type apiClient struct {
	base  string
	token string // empty where none is asked for
}

// do makes a request, with body as JSON unless that is nil, and returns the answer.
func (c apiClient) do(ctx context.Context, method, path string, body any) (status int, text []byte, err error) {
	var send io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		send = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.base, "/")+path, send)
	if err != nil {
		return 0, nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	a, err := apiClients.Do(req, maxAPIAnswer)
	if err == nil {
		err = a.Broken
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", c.base, err)
	}
	return a.Status, a.Body, nil
}

// problemIn returns what an answer says is wrong, or its status.
func problemIn(status int, text []byte) string {
	var p problem
	if json.Unmarshal(text, &p) == nil && p.Error != "" {
		return p.Error
	}
	return fmt.Sprintf("%d %s", status, http.StatusText(status))
}
