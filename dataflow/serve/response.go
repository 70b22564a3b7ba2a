package serve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// A Response is the answer to a request. The zero Response is an empty 200.
type Response struct {
	Status int         // zero means 200
	Header http.Header // may be nil; it is copied when it is sent
	Body   []byte      // sent as text/plain if Header has no Content-Type, never as what it looks like

	err error // why there is no body
}

// Text returns a response of plain text.
func Text(status int, text string) Response {
	return Response{Status: status, Body: []byte(text)}
}

// Reply returns a response whose body is v as JSON. A value that has no JSON, such as
// a NaN, makes it a 500 instead; the log says why.
func Reply(status int, v any) Response {
	body, err := json.Marshal(v)
	if err != nil {
		return Response{Status: http.StatusInternalServerError, Body: []byte("the answer could not be encoded\n"), err: fmt.Errorf("encoding a %T: %w", v, err)}
	}
	return Response{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: append(body, '\n')}
}

// send writes a response.
func (d *desk) send(w http.ResponseWriter, id RequestID, a Response) {
	status := cmp.Or(a.Status, http.StatusOK)
	if status < 200 || status > 999 {
		a = Response{err: fmt.Errorf("%d is not the status of a response", status)}
		status = http.StatusInternalServerError
	}
	if a.err != nil {
		d.opts.Log.Error("serve: a response cannot be sent", "router", d.name, "request", id, "err", a.err)
	}
	h := w.Header()
	for k, v := range a.Header {
		h[http.CanonicalHeaderKey(k)] = slices.Clip(v)
	}
	h.Del("Transfer-Encoding")
	h.Del("Content-Length")
	if status == http.StatusNoContent || status == http.StatusNotModified {
		w.WriteHeader(status)
		return
	}
	if len(a.Body) > 0 && h["Content-Type"] == nil {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("X-Content-Type-Options", "nosniff")
	}
	h.Set("Content-Length", strconv.Itoa(len(a.Body)))
	w.WriteHeader(status)
	w.Write(a.Body) // an error is the client's
}
