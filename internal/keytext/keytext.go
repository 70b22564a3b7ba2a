// Package keytext parses keys of collections from text that people type.
package keytext

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Err is wrapped by the error for a text that is not a key.
var Err = errors.New("no such key")

// Parse parses a key of a type from JSON. If the text is not JSON, it is a key of kind
// string.
func Parse(t reflect.Type, text string) (key any, err error) {
	v := reflect.New(t)
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(v.Interface())
	switch {
	case err == nil && strings.TrimSpace(text[d.InputOffset():]) != "":
		err = errors.New("there is more behind it")
	case strings.TrimSpace(text) == "null": // package json leaves the key as it is
		err = errors.New("null is no key")
	}
	if err != nil && t.Kind() == reflect.String {
		v.Elem().SetString(text)
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %q is not of type %s in JSON: %w", Err, text, t, err)
	}
	return v.Elem().Interface(), nil
}
