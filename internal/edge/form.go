package edge

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
)

// maxForm bounds a form, which people fill in.
const maxForm = 64 << 10

// ReadForm reads a form from the body of a POST. It takes application/x-www-form-urlencoded
// only: the parser of multipart forms in net/http writes what is large to files. Parameters
// of the query, which end up in logs, are no part of it; see [net/url.URL.Query].
func ReadForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	if r.Method != http.MethodPost {
		return nil, errors.New("edge: a form is sent with POST")
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/x-www-form-urlencoded" {
		return nil, errors.New("edge: the body is not application/x-www-form-urlencoded")
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if err != nil {
		return nil, err
	}
	return url.ParseQuery(string(text))
}
