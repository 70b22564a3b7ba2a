package serve

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// A Request holds what a flow sees of an HTTP request. It is a copy, with the whole body
// in memory. All readers of its collection share it, so it must not be changed.
type Request struct {
	ID         RequestID         // the key of the request
	Method     string            // such as "POST"
	Host       string            // as the client wrote it
	Path       string            // unescaped
	Pattern    string            // the pattern that the path has matched, or ""
	PathValues map[string]string // of the wildcards of Pattern; nil without any
	Query      url.Values
	Header     http.Header
	Body       []byte // complete; nil only if it is empty
	RemoteAddr string // of the last hop; a proxy writes the client into a header
}

// PathValue returns the value of a wildcard of the pattern that matched, or "".
func (r *Request) PathValue(name string) string { return r.PathValues[name] }

// read returns a copy of a request, without its id.
func read(w http.ResponseWriter, r *http.Request, limit int64) (*Request, error) {
	body, err := readBody(w, r, limit)
	if err != nil {
		return nil, err
	}
	return &Request{
		Method:     r.Method,
		Host:       r.Host,
		Path:       r.URL.Path,
		Pattern:    r.Pattern,
		PathValues: pathValues(r),
		Query:      r.URL.Query(),
		Header:     r.Header.Clone(),
		Body:       body,
		RemoteAddr: r.RemoteAddr,
	}, nil
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil, nil
	}
	if r.ContentLength > limit {
		return nil, errLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, errLarge
	case err != nil:
		return nil, errRead
	case len(body) == 0:
		return nil, nil
	}
	return body, nil
}

// pathValues returns the values of the wildcards of the pattern that r has matched.
func pathValues(r *http.Request) map[string]string {
	var values map[string]string
	for rest := r.Pattern; ; {
		_, after, ok := strings.Cut(rest, "{")
		if !ok {
			return values
		}
		name, after, ok := strings.Cut(after, "}")
		if !ok {
			return values
		}
		if name = strings.TrimSuffix(name, "..."); name != "$" {
			if values == nil {
				values = make(map[string]string)
			}
			values[name] = r.PathValue(name)
		}
		rest = after
	}
}

// A content is a digest of everything that must be the same in a repeat.
type content [sha256.Size]byte

// contentOf returns the content of a request, including the headers same.
func contentOf(r *http.Request, body []byte, same []string) (c content) {
	h := sha256.New()
	field(h, r.Method)
	field(h, r.Host)
	field(h, r.URL.EscapedPath())
	field(h, r.URL.RawQuery)
	for _, name := range same {
		values := r.Header.Values(name)
		size(h, len(values))
		for _, v := range values {
			field(h, v)
		}
	}
	h.Write(body)
	h.Sum(c[:0])
	return c
}

// field writes s with its length, so that two fields cannot be read as one.
func field(h hash.Hash, s string) {
	size(h, len(s))
	io.WriteString(h, s)
}

func size(h hash.Hash, n int) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	h.Write(b[:])
}
