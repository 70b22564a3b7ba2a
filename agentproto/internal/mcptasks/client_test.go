package mcptasks

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

type answer func(r *http.Request) *http.Response

func (f answer) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// TestEvents makes a server write a task in several lines and pieces, between other
// events.
func TestEvents(t *testing.T) {
	const task = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"a"}}`
	const want = `{"id":1,"jsonrpc":"2.0","result":{"_meta":{"io.millrace/task":{"resultType":"task","taskId":"a"}},"content":[],"resultType":"complete"}}`
	long := `{"jsonrpc":"2.0","method":"x","params":{"type":"task","text":"` + strings.Repeat("y", 8<<10) + `"}}`
	for _, c := range []struct{ kind, in, out string }{
		{"text/event-stream", "id: 1\ndata: \n\nevent: message\r\ndata: " + task + "\r\n\r\n", "id: 1\ndata: \n\nevent: message\r\ndata: " + want + "\n\r\n"},
		{"text/event-stream", "data:" + strings.Replace(task, `"id"`, "\ndata: \"id\"", 1) + "\nid: 7\n\n", "data: " + want + "\nid: 7\n\n"},
		{"text/event-stream; charset=utf-8", ": " + task + "\n\ndata: " + long + "\n\n", ": " + task + "\n\ndata: " + long + "\n\n"},
		{"text/event-stream", "data: not JSON, a \"task\"\n\ndata: cut off", "data: not JSON, a \"task\"\n\ndata: cut off"},
		{"application/json", task, want},
		{"application/json", `{"result":{"resultType":"complete"}}`, `{"result":{"resultType":"complete"}}`},
		{"text/event-stream", "data: " + strings.Repeat("x", 11<<10) + "\n\n", ""},
		{"text/event-stream", strings.Repeat("data: xxxxxxxxx\n", 1<<11) + "\n\n", ""},
		{"application/json", strings.Repeat(" ", 11<<10), ""},
	} {
		for _, slow := range []bool{false, true} {
			server := answer(func(*http.Request) *http.Response {
				var body io.Reader = strings.NewReader(c.in)
				if slow {
					body = iotest.OneByteReader(body)
				}
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {c.kind}}, Body: io.NopCloser(body)}
			})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://mcp.example", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Mcp-Method", "tools/call")
			res, err := RoundTripper{server, 10 << 10}.RoundTrip(r)
			var got []byte
			if err == nil {
				got, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			if c.out == "" && err == nil || c.out != "" && (err != nil || string(got) != c.out) {
				t.Errorf("%.200s became %.300s, %v", c.in, got, err)
			}
		}
	}
}

// TestName checks the headers of requests about tasks and of others.
func TestName(t *testing.T) {
	for method, want := range map[string]string{"tasks/get": "a-task", "tools/call": "", "server/discover": ""} {
		name := ""
		server := answer(func(r *http.Request) *http.Response {
			name = r.Header.Get("Mcp-Name")
			if r.Header.Get("X") != "y" {
				t.Error("a header is lost")
			}
			return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody}
		})
		r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://mcp.example", bytes.NewReader([]byte(`{"method":"tasks/get","params":{"taskId":"a-task"}}`)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Mcp-Method", method)
		r.Header.Set("X", "y")
		if _, err := (RoundTripper{server, 1 << 10}).RoundTrip(r); err != nil || name != want {
			t.Errorf("%s: the name is %q, %v", method, name, err)
		}
	}
}
