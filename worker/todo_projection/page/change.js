// What one write of a list changed of the one before it. Items are the same by their exact text.

/** `before` is the list that stood there, null where there was none. */
export function changeOf(before, after) {
  const was = new Map((before ?? []).map((todo) => [todo.content, todo.status]));
  const is = new Map(after.map((todo) => [todo.content, todo.status]));
  const stayed = after.filter((todo) => was.has(todo.content)).map((todo) => todo.content);
  const places = new Map([...was.keys()].map((content, place) => [content, place]));
  return {
    first: before === null,
    added: new Set(after.filter((todo) => !was.has(todo.content)).map((todo) => todo.content)),
    removed: (before ?? []).filter((todo) => !is.has(todo.content)),
    moved: movedOf(stayed, places),
    turned: new Map(stayed.filter((content) => was.get(content) !== is.get(content)).map((content) => [content, [was.get(content), is.get(content)]])),
  };
}

/** Those that do not fit into the longest run that kept its order: as few as can explain the new order. */
function movedOf(stayed, places) {
  const ends = []; // of runs of each length: the index in `stayed` of the smallest last place
  const previous = [];
  stayed.forEach((content, index) => {
    const place = places.get(content);
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (places.get(stayed[ends[middle]]) < place) low = middle + 1;
      else high = middle;
    }
    previous[index] = low > 0 ? ends[low - 1] : -1;
    ends[low] = index;
  });
  const moved = new Set(stayed);
  for (let index = ends.at(-1) ?? -1; index >= 0; index = previous[index]) moved.delete(stayed[index]);
  return moved;
}

const TURNED = { completed: "completed", in_progress: "started", pending: "back to pending" };

/** The change in a few words. */
export function changeWords(change, after) {
  if (change.first) return after.length ? `a first list of ${after.length}` : "an empty list";
  const counts = {};
  for (const [, to] of change.turned.values()) counts[TURNED[to]] = (counts[TURNED[to]] ?? 0) + 1;
  const parts = Object.values(TURNED).filter((word) => counts[word]).map((word) => `${counts[word]} ${word}`);
  for (const [word, count] of [["added", change.added.size], ["removed", change.removed.length], ["moved", change.moved.size]]) {
    if (count) parts.push(`${count} ${word}`);
  }
  return parts.join(", ") || "the same list again";
}
