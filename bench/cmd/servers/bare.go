package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"

	"github.com/millrace/millrace/agentproto"
)

// The bare handlers are what somebody writes who has only the messages of the protocol in mind. They decode and encode messages
// with the same functions as Millrace. They keep nothing on disk and have neither limits nor checks.

// newClient returns a client that keeps its connections.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}
}

// post posts a message and returns an error unless it is answered with the status.
func post(client *http.Client, url string, message []byte, status int) error {
	resp, err := client.Post(url, "application/json", bytes.NewReader(message))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != status {
		err = fmt.Errorf("POST %s is answered %s: %s", url, resp.Status, body)
	}
	return err
}

// warn prints an error. The call that it belongs to gets no result, so its caller fails.
func warn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// serveUntilEnd serves until standard input is closed, which also happens when the process at its other end is killed.
func serveUntilEnd(server *httptest.Server) error {
	fmt.Printf("listens at %s\n", server.URL)
	_, err := io.Copy(io.Discard, os.Stdin)
	server.CloseClientConnections()
	server.Close()
	return err
}

// An echo has the arguments of the tool that all forms call.
type echo struct {
	Text string `json:"text"`
}

// beTool is a tool server with one tool, which answers with its argument.
func beTool() error {
	client := newClient()
	return serveUntilEnd(httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if r.URL.Path != "/invoke" {
			fmt.Fprintf(w, `{"name":"bare","endpoint":"http://%s/invoke","tools":[{"name":"echo","description":"Says it again.","inputSchema":{"type":"object"}}]}`, r.Host)
			return
		}
		call, err := agentproto.DecodeInvocation(body, agentproto.Limits{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusOK)
		go func() { warn(answerCall(client, call)) }()
	})))
}

// answerCall posts the result of a call to its callback URL.
func answerCall(client *http.Client, call *agentproto.Invocation) error {
	var said echo
	if err := json.Unmarshal(call.Arguments, &said); err != nil {
		return err
	}
	message, err := agentproto.Encode(&agentproto.ToolResult{ID: call.ID, GroupID: call.GroupID, Text: &said.Text})
	if err != nil {
		return err
	}
	return post(client, call.CallbackURL, message, http.StatusOK)
}

// A bareCall is a call in the format of the API of millrace serve.
type bareCall struct {
	GroupID   string          `json:"group_id"`
	ID        string          `json:"id"`
	Operation string          `json:"operation,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// A bareResult is a result in that format.
type bareResult struct {
	GroupID string `json:"group_id"`
	ID      string `json:"id"`
	OK      bool   `json:"ok"`
	Text    string `json:"text"`
}

// A bareHost makes calls for those who ask for them over HTTP, as millrace serve does.
type bareHost struct {
	tool, url string
	client    *http.Client

	mu      sync.Mutex
	pending map[agentproto.CallKey]chan string
}

// beHost is a host with one tool server.
func beHost(tool string) error {
	h := &bareHost{tool: tool, client: newClient(), pending: make(map[agentproto.CallKey]chan string)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /calls", h.call)
	mux.HandleFunc("GET /calls/{thread}/{id}", h.result)
	mux.HandleFunc("POST /callback", h.callback)
	server := httptest.NewServer(mux)
	h.url = server.URL
	return serveUntilEnd(server)
}

// call accepts a call and posts the invocation to the tool server.
func (h *bareHost) call(w http.ResponseWriter, r *http.Request) {
	var c bareCall
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.pending[agentproto.CallKey{GroupID: c.GroupID, ID: c.ID}] = make(chan string, 1)
	h.mu.Unlock()
	go func() {
		message, err := agentproto.Encode(&agentproto.Invocation{
			Operation: c.Operation, Arguments: []byte(c.Arguments), ID: c.ID, GroupID: c.GroupID, CallbackURL: h.url + "/callback",
		})
		if err == nil {
			err = post(h.client, h.tool+"/invoke", message, http.StatusOK)
		}
		warn(err)
	}()
	write(w, http.StatusAccepted, bareCall{GroupID: c.GroupID, ID: c.ID})
}

// callback receives a result.
func (h *bareHost) callback(w http.ResponseWriter, r *http.Request) {
	result, err := readResult(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	pending := h.pending[result.Key()]
	h.mu.Unlock()
	if pending == nil {
		http.Error(w, "no such call", http.StatusNotFound)
		return
	}
	pending <- result.String()
}

// readResult returns the result in the body of a request.
func readResult(r *http.Request) (*agentproto.ToolResult, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	message, err := agentproto.DecodeCallback(body, agentproto.Limits{})
	if err != nil {
		return nil, err
	}
	result, ok := message.(*agentproto.ToolResult)
	if !ok {
		return nil, fmt.Errorf("a tool answers with a %T", message)
	}
	return result, nil
}

// result waits for a result and forgets the call.
func (h *bareHost) result(w http.ResponseWriter, r *http.Request) {
	key := agentproto.CallKey{GroupID: r.PathValue("thread"), ID: r.PathValue("id")}
	h.mu.Lock()
	pending := h.pending[key]
	h.mu.Unlock()
	if pending == nil {
		http.Error(w, "no such call", http.StatusNotFound)
		return
	}
	select {
	case text := <-pending:
		h.mu.Lock()
		delete(h.pending, key)
		h.mu.Unlock()
		write(w, http.StatusOK, bareResult{GroupID: key.GroupID, ID: key.ID, OK: true, Text: text})
	case <-r.Context().Done():
	}
}

func write(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text)
}
