package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/fxamacker/cbor/v2"
)

// A Response is the answer to a request. The zero Response is an empty 200.
type Response struct {
	Status int         // zero means 200
	Header http.Header // may be nil; it is copied when it is sent
	Body   []byte      // sent as text/plain if Header has no Content-Type; the type is never guessed

	err error // why the response cannot be sent
}

// A storedResponse is the encoding of a Response.
type storedResponse struct {
	Status int                 `cbor:"1,keyasint,omitempty"`
	Header map[string][]string `cbor:"2,keyasint,omitempty"`
	Body   []byte              `cbor:"3,keyasint,omitempty"`
	Err    string              `cbor:"4,keyasint,omitempty"`
}

// responseEncoding and responseDecoding follow RFC 8949: each response has exactly one
// encoding, and header values may be any bytes.
var responseEncoding, responseDecoding = sync.OnceValues(func() (cbor.EncMode, error) {
	return cbor.CoreDetEncOptions().EncMode()
}), sync.OnceValues(func() (cbor.DecMode, error) {
	return cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid}.DecMode()
})

// MarshalBinary encodes the response, so that a durable flow can keep it. If the response
// cannot be sent, the reason is encoded as text.
func (r Response) MarshalBinary() ([]byte, error) {
	mode, err := responseEncoding()
	if err != nil {
		return nil, err
	}
	s := storedResponse{Status: r.Status, Header: r.Header, Body: r.Body}
	if r.err != nil {
		s.Err = r.err.Error()
	}
	return mode.Marshal(s)
}

// UnmarshalBinary decodes a response that [Response.MarshalBinary] encoded.
func (r *Response) UnmarshalBinary(data []byte) error {
	mode, err := responseDecoding()
	if err != nil {
		return err
	}
	var s storedResponse
	if err := mode.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("serve: decoding a response: %w", err)
	}
	*r = Response{Status: s.Status, Header: s.Header, Body: s.Body}
	if s.Err != "" {
		r.err = errors.New(s.Err)
	}
	return nil
}

// Text returns a response of plain text.
func Text(status int, text string) Response {
	return Response{Status: status, Body: []byte(text)}
}

// Reply returns a response whose body is v as JSON. If v has no JSON encoding, like a NaN,
// the response is a 500 instead, and the log says why.
func Reply(status int, v any) Response {
	body, err := json.Marshal(v)
	if err != nil {
		return Response{Status: http.StatusInternalServerError, Body: []byte("the answer could not be encoded\n"), err: fmt.Errorf("encoding a %T: %w", v, err)}
	}
	return Response{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: append(body, '\n')}
}

// send writes a response.
func (t *requestTable) send(w http.ResponseWriter, id RequestID, a Response) {
	status := cmp.Or(a.Status, http.StatusOK)
	if status < 200 || status > 999 {
		a = Response{err: fmt.Errorf("%d is not the status of a response", status)}
		status = http.StatusInternalServerError
	}
	if a.err != nil {
		t.opts.Log.Error("serve: a response cannot be sent", "router", t.name, "request", id, "error", a.err)
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
