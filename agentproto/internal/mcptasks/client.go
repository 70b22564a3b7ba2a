package mcptasks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK decodes the answer to tools/call as a CallToolResult, which has no place for a task, and does not allow replacing the
// method. So a task is moved into the _meta of a result before the SDK reads it: on a pair of streams by [Transport], and over
// HTTP by [RoundTripper], since the SDK does not accept a wrapped connection there.

// metaTask is the member of _meta with the task. A member of this name from a server is removed.
const metaTask = "io.millrace/task"

// TaskOf returns the task that a server has answered instead of a result.
func TaskOf(res *mcp.CallToolResult) (*Task, bool) {
	v, ok := res.Meta[metaTask]
	if !ok {
		return nil, false
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, false
	}
	t := new(Task)
	return t, json.Unmarshal(data, t) == nil && t.TaskID != ""
}

// Declare makes a client able to send the methods of the extension. Its capabilities must declare the extension separately.
func Declare(c *mcp.Client) error {
	return errors.Join(
		mcp.AddSendingCustomMethod[*IDParams, *GetTaskResult](c, MethodGet),
		mcp.AddSendingCustomMethod[*UpdateParams, *Ack](c, MethodUpdate),
		mcp.AddSendingCustomMethod[*IDParams, *Ack](c, MethodCancel),
	)
}

// Get requests the state of a task.
func Get(ctx context.Context, cs *mcp.ClientSession, id string) (*GetTaskResult, error) {
	return mcp.CallCustomMethod[*IDParams, *GetTaskResult](ctx, cs, MethodGet, &IDParams{TaskID: id})
}

// Update answers input requests of a task, by their keys.
func Update(ctx context.Context, cs *mcp.ClientSession, id string, answers map[string]json.RawMessage) error {
	p := &UpdateParams{TaskID: id, InputResponses: answers}
	_, err := mcp.CallCustomMethod[*UpdateParams, *Ack](ctx, cs, MethodUpdate, p)
	return err
}

// Cancel requests the cancellation of a task.
func Cancel(ctx context.Context, cs *mcp.ClientSession, id string) error {
	_, err := mcp.CallCustomMethod[*IDParams, *Ack](ctx, cs, MethodCancel, &IDParams{TaskID: id})
	return err
}

// adapted returns a result as the SDK can read it, and reports whether it was changed.
func adapted(result json.RawMessage) (json.RawMessage, bool) {
	result, isMoved := moved(result)
	result, isReplaced := readable(result)
	return result, isMoved || isReplaced
}

// moved returns a result whose task, if there is one, is in its _meta, and reports whether it was changed.
func moved(result json.RawMessage) (json.RawMessage, bool) {
	if !bytes.Contains(result, []byte(`"task"`)) && !bytes.Contains(result, []byte(metaTask)) {
		return result, false
	}
	var r struct {
		ResultType string                     `json:"resultType"`
		Meta       map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(result, &r) != nil {
		return result, false
	}
	var out any
	switch _, forged := r.Meta[metaTask]; {
	case r.ResultType == "task":
		out = map[string]any{"resultType": "complete", "content": []any{}, "_meta": map[string]any{metaTask: result}}
	case forged:
		var whole map[string]json.RawMessage
		if json.Unmarshal(result, &whole) != nil {
			return result, false
		}
		delete(r.Meta, metaTask)
		meta, err := json.Marshal(r.Meta)
		if err != nil {
			return result, false
		}
		whole["_meta"] = meta
		out = whole
	default:
		return result, false
	}
	data, err := json.Marshal(out)
	return data, err == nil
}

// adaptedIn does the same for a whole message. Anything that is not a message is returned unchanged.
func adaptedIn(message []byte) []byte {
	var m map[string]json.RawMessage
	if json.Unmarshal(message, &m) != nil || m["result"] == nil {
		return message
	}
	result, changed := adapted(m["result"])
	if !changed {
		return message
	}
	m["result"] = result
	if out, err := json.Marshal(m); err == nil {
		return out
	}
	return message
}

// A Transport wraps a transport over a pair of streams whose client can receive tasks: see [TaskOf].
type Transport struct{ mcp.Transport }

// Connect implements [mcp.Transport].
func (t Transport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return connection{c}, nil
}

type connection struct{ mcp.Connection }

// Read implements [mcp.Connection].
func (c connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Response); ok && r.Error == nil {
		r.Result, _ = adapted(r.Result)
	}
	return m, err
}

// A RoundTripper wraps a transport for Streamable HTTP whose client can receive tasks: see [TaskOf]. It also sends the headers
// that requests about tasks require.
type RoundTripper struct {
	http.RoundTripper
	Most int // maximum size of one message in bytes
}

// RoundTrip implements [http.RoundTripper].
func (t RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	method := r.Header.Get("Mcp-Method")
	if strings.HasPrefix(method, "tasks/") && r.Header.Get("Mcp-Name") == "" && r.GetBody != nil {
		id, err := taskIn(r)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Header.Set("Mcp-Name", id)
	}
	res, err := t.RoundTripper.RoundTrip(r)
	if err != nil || method != "tools/call" || res.StatusCode != http.StatusOK {
		return res, err
	}
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	switch strings.TrimSpace(kind) {
	case "application/json":
		data, err := io.ReadAll(io.LimitReader(res.Body, int64(t.Most)+1))
		res.Body.Close()
		if err != nil {
			return nil, err
		}
		if len(data) > t.Most {
			return nil, errLong
		}
		data = adaptedIn(data)
		res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
		res.Header.Del("Content-Length")
	case "text/event-stream":
		res.Body = &events{Closer: res.Body, in: bufio.NewReader(res.Body), most: t.Most}
	}
	return res, nil
}

// CloseIdleConnections is for [http.Client.CloseIdleConnections].
func (t RoundTripper) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// taskIn returns the id of the task in a request.
func taskIn(r *http.Request) (string, error) {
	body, err := r.GetBody()
	if err != nil {
		return "", err
	}
	defer body.Close()
	var m struct {
		Params struct {
			TaskID string `json:"taskId"`
		} `json:"params"`
	}
	err = json.NewDecoder(body).Decode(&m)
	return m.Params.TaskID, err
}

var errLong = errors.New("mcptasks: a message is too long")

// events is an event stream in which results are adapted. Everything else stays as the server has written it, except that the data
// of an event is put on one line.
type events struct {
	io.Closer
	in   *bufio.Reader
	most int
	data []byte // of the current event, so far
	has  bool   // the event has data, which may be empty
	left []byte // not yet returned by Read
	err  error  // returned after left
}

// Read implements [io.Reader].
func (e *events) Read(p []byte) (int, error) {
	for len(e.left) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.next()
	}
	n := copy(p, e.left)
	e.left = e.left[n:]
	return n, nil
}

// next reads and processes one line.
func (e *events) next() {
	var text []byte
	for whole := false; !whole; {
		part, err := e.in.ReadSlice('\n')
		if text = append(text, part...); len(text) > e.most+64 {
			e.err = errLong
			return
		}
		if whole = !errors.Is(err, bufio.ErrBufferFull); whole {
			e.err = err
		}
	}
	if e.err != nil {
		e.left = text // a line without an end belongs to no event
		return
	}
	data, ok := bytes.CutPrefix(bytes.TrimRight(text, "\r\n"), []byte("data:"))
	switch {
	case ok && len(e.data)+len(data) > e.most:
		e.err = errLong
	case ok: // a line break in JSON is white space
		e.data, e.has = append(append(e.data, bytes.TrimPrefix(data, []byte(" "))...), ' '), true
	case e.has:
		e.left = append(append([]byte("data: "), adaptedIn(bytes.TrimSpace(e.data))...), '\n')
		e.left = append(e.left, text...)
		e.data, e.has = nil, false
	default:
		e.left = text
	}
}
