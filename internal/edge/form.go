package edge

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
)

// maxForm limits the size of a form, which people fill in.
const maxForm = 64 << 10

// ReadForm reads a form from the body of a POST. It accepts only
// application/x-www-form-urlencoded: the parser for multipart forms in net/http writes
// large parts to files. It ignores parameters in the query, which end up in logs; see
// [net/url.URL.Query].
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
