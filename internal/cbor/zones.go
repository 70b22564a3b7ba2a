package cbor

import (
	"reflect"
	"sync"
	"time"
)

// The operator == compares the locations of two times by address, and a time that is decoded with an offset such as +05:30 has a
// location of its own. So no decoded key with such a time would equal another one. Here all times with one offset share a location.

var zones sync.Map // of int, seconds east of UTC, to *time.Location

// inSharedZone returns t in the location that its offset has.
func inSharedZone(t time.Time) time.Time {
	l := t.Location()
	if l == time.UTC || l == time.Local {
		return t
	}
	_, offset := t.Zone()
	zone, ok := zones.Load(offset)
	if !ok {
		zone, _ = zones.LoadOrStore(offset, l)
	}
	return t.In(zone.(*time.Location))
}

// shareZones sets the locations of all times in v, which can be set and was decoded.
func shareZones(v reflect.Value) {
	t := v.Type()
	switch {
	case t == timeType:
		if v.CanSet() { // not a field that has no encoding
			v.Set(reflect.ValueOf(inSharedZone(v.Interface().(time.Time))))
		}
		return
	case !holdsTimes(t):
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			shareZones(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			shareZones(v.Index(i))
		}
	case reflect.Map:
		if !v.CanSet() {
			return
		}
		for _, was := range v.MapKeys() {
			x := v.MapIndex(was)
			if !x.IsValid() { // a NaN, under which nothing is found
				continue
			}
			k, shared := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
			k.Set(was)
			shared.Set(x)
			shareZones(k)
			shareZones(shared)
			if !k.Equal(was) {
				v.SetMapIndex(was, reflect.Value{})
			}
			v.SetMapIndex(k, shared)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			shareZones(v.Field(i))
		}
	}
}
