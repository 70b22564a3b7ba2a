package digest

import (
	"reflect"
	"strings"
)

// Refers reports whether values of a type can be changed through a reference, so that the
// digest of a value can change. It is false for a nil type, for functions and channels, which a
// digest does not look into, and for the views of package cow, which cannot be changed.
func Refers(t reflect.Type) bool {
	if t == nil {
		return false
	}
	switch t.Kind() {
	case reflect.Array:
		return t.Len() > 0 && Refers(t.Elem())
	case reflect.Struct:
		if strings.HasSuffix(t.PkgPath(), "/internal/cow") || t.PkgPath() == "time" {
			return false
		}
		for i := range t.NumField() {
			if Refers(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		return true
	}
	return false
}
