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

// apiClients makes the requests of every apiClient. It follows no redirect and uses no proxy from
// the environment: neither may receive the token, and the API does not redirect.
var apiClients = edge.NewClient(edge.Outbound{Dial: new(net.Dialer).DialContext}.Transport())

// maxAPIAnswer limits the size of an answer, in bytes.
const maxAPIAnswer = 64 << 20

// An apiClient makes requests to the API of a runtime, or to its addresses that need no token.
type apiClient struct {
	base  string
	token string // empty if none is required
}

// do makes a request, with body as JSON unless it is nil, and returns the answer.
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

// problemIn returns the error message in an answer, or its status if there is none.
func problemIn(status int, text []byte) string {
	var p problem
	if json.Unmarshal(text, &p) == nil && p.Error != "" {
		return p.Error
	}
	return fmt.Sprintf("%d %s", status, http.StatusText(status))
}
