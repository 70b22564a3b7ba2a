// Package file reads and writes files of lines with package connect.
//
// [Lines], [JSON] and [CSV] are sources: the files that a pattern finds are the splits, and the position of a record is the number
// of bytes up to its end, uncompressed. Files whose names end in .gz are uncompressed.
//
//	connect.Attach(ctx, app, connect.BySplit(file.JSON[Order]("/var/log/orders/*.jsonl", file.Options{Follow: true})), in, connect.Options{})
//
// [Segments] is a sink that is Atomic: folders of files that appear whole and do not change.
package file
