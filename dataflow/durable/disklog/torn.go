package disklog

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tornEnd returns where the readable part of a write-ahead log ends, and whether the beginning of
// another entry follows. A file that was reused contains bytes of an older one there, which carry
// the number of the older file.
func tornEnd(fs vfs.FS, path string, number uint64) (at int64, torn bool) {
	b, err := readFile(fs, path)
	if err != nil {
		return 0, false
	}
	r := numbered(record.NewReader, b, number)
	for {
		next, err := r.Next()
		if err == io.EOF {
			return 0, false
		}
		if err == nil {
			_, err = io.Copy(io.Discard, next)
		}
		if err != nil {
			break
		}
		at = r.Offset()
	}
	const header = 11 // checksum (4), length (2), kind (1), number (4)
	if at+header > int64(len(b)) {
		return at, at < int64(len(b))
	}
	return at, binary.LittleEndian.Uint32(b[at+7:]) == uint32(number)
}

// numbered calls a function of pebble that takes a number whose type has no public name.
func numbered[N ~uint64](newReader func(io.Reader, N) *record.Reader, b []byte, number uint64) *record.Reader {
	return newReader(bytes.NewReader(b), N(number))
}

// torn logs what is cut off at the end of the newest write-ahead log. It was never acknowledged.
func (l *Log) torn(marked []synced) {
	fs, dir := l.opts.fs, l.path(storageName)
	names, err := fs.List(dir)
	if err != nil {
		return
	}
	var newest synced
	for _, name := range names {
		if kind, number, ok := fileKind(name); ok && kind == 'l' && number > newest.number {
			newest = synced{kind: kind, number: number}
		}
	}
	if newest.kind == 0 {
		return
	}
	for _, s := range marked {
		if s.kind == newest.kind && s.number == newest.number {
			newest = s
		}
	}
	if at, rest := tornEnd(fs, fs.PathJoin(dir, newest.name()), newest.number); rest {
		l.logger.Info("the end of the newest file was being written when the process ended, and is cut: it was never acknowledged",
			"file", newest.name(), "from", at, "acknowledged", newest.bytes)
	}
}
