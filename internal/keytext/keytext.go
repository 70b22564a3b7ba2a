// Package keytext reads keys of collections from what people type.
package keytext

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Err is that a text is no key.
var Err = errors.New("no such key")

// Parse reads a key of a type from JSON. A text that is no JSON is a key of kind string.
func Parse(t reflect.Type, text string) (key any, err error) {
	v := reflect.New(t)
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(v.Interface())
	if err == nil && strings.TrimSpace(text[d.InputOffset():]) != "" {
		err = errors.New("there is more behind it")
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
