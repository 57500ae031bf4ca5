// Names of a session's keys: docs/WRITE_PROTOCOL.md, "Keys".

/** Cluster slot of all bytes of the text, CRC16/XMODEM mod 16384; braces in it mean nothing. */
export function slot(text: string): number {
  let crc = 0;
  for (const byte of Buffer.from(text)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  }
  return (crc & 0xffff) % 16384;
}

/** What the names of all keys of the session's partition begin with: `<ns>:{<tag>}:`. */
export function stemOf(session: string, partitions: number, namespace = "todo"): string {
  const partitionOf = (text: string) => Math.floor((slot(text) * partitions) / 16384);
  const partition = partitionOf(session);
  let tag = 0;
  while (partitionOf(String(tag)) !== partition) tag++;
  return `${namespace}:{${tag}}:`;
}

/** KEYS of `append.lua`: log, feed, row. */
export function keysOf(session: string, partitions: number, namespace = "todo"): string[] {
  const stem = stemOf(session, partitions, namespace);
  return [`${stem}log:${session}`, `${stem}feed`, `${stem}proj:${session}`];
}
