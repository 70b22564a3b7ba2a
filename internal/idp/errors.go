package idp

import (
	"errors"
	"fmt"
)

// ErrLogin is returned by a [Browser] if the provider does not accept the user
// name or the password.
var ErrLogin = errors.New("idp: wrong user name or password")

// ErrNoForm is returned by a [Browser] if a page does not have the expected
// form, for example because the address was not one of an authorization.
var ErrNoForm = errors.New("idp: the page has no such form")

// A PageError reports a page with a status of 400 or more.
type PageError struct {
	// URL is the address of the page without its query, which may hold a code.
	URL    string
	Status int
	// Page is the text of the answer.
	Page string
}

func (e *PageError) Error() string {
	return fmt.Sprintf("idp: %s answered with status %d", e.URL, e.Status)
}
